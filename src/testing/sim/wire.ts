import { FlashSaleError } from '../../core/errors.js'
import type { OrderBook } from '../../core/order-book.js'
import type { Name } from './names.js'
import type { Own } from './options.js'
import { SimProcess } from './process.js'
import type { SimSale } from './sale.js'
import { simActivities } from './sim-control.js'
import { BOOK_FAULTS, simOrders } from './sim-orders.js'
import { simPaymentBook } from './sim-payment-book.js'
import { SimQueue } from './sim-queue.js'
import { simRedis } from './sim-redis.js'
import type { World } from './world.js'

export interface Running {
  readonly process: SimProcess
  readonly sale: SimSale
  readonly queue: SimQueue
  readonly orders: OrderBook
}

/** What may be told to a caller when services fail; anything else is a fault of the library. */
const EXPECTED: ReadonlySet<string> = new Set([
  'OUTCOME_UNKNOWN',
  'REDIS_REFUSED',
  'NOT_WARMED',
  'DB_UNAVAILABLE',
  'STOPPED',
])

export const isExpected = (error: unknown) =>
  error instanceof FlashSaleError && EXPECTED.has(error.code)

/** Wires one process of the host: its own clients of what all share. */
export function wire(world: World, name: Name): Running {
  const { calls, broker, store, db, money, o, control, clock, names } = world
  const process = new SimProcess(name)
  const now = () => clock.now
  const label = (what: string, ids: readonly string[]) => [what, ...ids].join(' ')
  const write: Own['write'] = (what, ids, act) =>
    calls.send(process, () => label(`database: ${what}`, ids), act, BOOK_FAULTS)
  const queue = new SimQueue({
    ...{ process, calls, broker },
    label: (batch) =>
      label(
        'message',
        batch.reservations.map((r) => r.orderNo),
      ),
    split: o.broken?.splits ?? false,
  })
  let sale: SimSale | null = null
  const channels = world.channels.map((c) => c.provider(process, calls))
  const own: Own = {
    ...{ write, store, channels },
    sale: () => sale as unknown as SimSale,
    orders: () => orders,
  }
  const plain = simOrders(db, write, now)
  const book = simPaymentBook(money, write, now)
  const orders = o.broken?.orders?.(plain, own) ?? plain
  sale = o.sale({
    redis: simRedis({
      ...{ process, calls, redis: world.redis },
      label: (sha, args) => label(scriptName(world, sha), names.within(args.join(' '))),
    }),
    ...{ queue, orders, control, channels },
    fences: world.fences.of(write),
    leases: world.leases.of(process),
    payments: o.broken?.payments?.(book, own) ?? book,
    activities: simActivities(db.activity),
    events: {
      onAlert: (code, { error }) => {
        if (error !== undefined) world.thrown(process, `alert ${code}`, error)
      },
    },
  })
  return { process, sale, queue, orders }
}

const scriptName = ({ o }: World, sha: string) =>
  o.scripts?.find((s) => s.sha === sha)?.name ?? `script ${sha.slice(0, 7)}`
