import * as check from '../../core/check.js'
import type { OwedRelease } from '../../core/order-book.js'
import type { LeasedMessage } from '../../core/outbox.js'
import type { Reservation } from '../../core/types.js'
import { Messages } from '../outbox/messages.js'
import { resolveTasks } from '../outbox/parked.js'
import { OUR_NUMBERS, OUR_TOPICS, SENT } from '../outbox/tables.js'
import type { Database } from '../sql/database.js'
import type { Column } from '../sql/dialect.js'
import type { Tx } from '../sql/tx.js'
import { bareReservation } from './rows.js'

export const RELEASE_TOPIC = `${OUR_TOPICS}release`
/** Whoever closed an order tells Redis at once; only if that failed is the row taken up, after this. */
const FIRST_AFTER_MS = 15_000

const COLUMNS: readonly Column[] = [
  { name: 'biz_no', kind: 'text' },
  { name: 'topic', kind: 'text' },
  { name: 'payload', kind: 'text' },
  { name: 'next_retry_time', kind: 'int' },
  { name: 'created_at', kind: 'int' },
]

const bizNoOf = (orderNo: string) => OUR_NUMBERS + orderNo

const BY_US = { by: 'flash-sale-kit', resolution: 'Redis has been told' }

/** Records, in the transaction that closes orders, that Redis has to get their units back. */
export async function oweReleases(
  tx: Tx,
  table: string,
  closed: readonly { readonly order: Reservation; readonly reason: string }[],
  now: number,
): Promise<void> {
  if (closed.length === 0) return
  const rows = closed.map(({ order, reason }) => [
    bizNoOf(order.orderNo),
    RELEASE_TOPIC,
    JSON.stringify({ reservation: bareReservation(order), reason }),
    now + FIRST_AFTER_MS,
    now,
  ])
  await tx.insert(table, COLUMNS, rows)
}

/** What Redis has to be told of closed orders, as messages of the outbox. */
export class Releases {
  readonly #messages: Messages

  constructor(private readonly database: Database) {
    this.#messages = new Messages(database)
  }

  /** What cannot be read is parked, so that it does not keep the others back. */
  async take(o: {
    readonly limit: number
    readonly leaseMs: number
  }): Promise<readonly OwedRelease[]> {
    const owed: OwedRelease[] = []
    const unreadable: { readonly message: LeasedMessage; readonly error: string }[] = []
    for (const message of await this.#messages.take({ ...o, topic: RELEASE_TOPIC })) {
      const release = releaseOf(message)
      if (release) owed.push(release)
      else unreadable.push({ message, error: 'the payload is no release' })
    }
    await this.#messages.giveBack(unreadable, { park: 'all' })
    return owed
  }

  /** Numbers of the orders whose release is parked by it. */
  async retry(releases: readonly OwedRelease[], error: string): Promise<readonly string[]> {
    const failed = releases.map(({ id, lease, reservation }) => ({
      message: { bizNo: id, lease },
      orderNo: reservation.orderNo,
      error,
    }))
    const parked = await this.#messages.giveBack(failed, { park: 'spent' })
    return parked.map((f) => f.orderNo)
  }

  /** Whoever held them, and also when they were parked: a number is released once, however often Redis is told. */
  async done(orderNos: readonly string[]): Promise<void> {
    if (orderNos.length === 0) return
    const { tables } = this.database
    const bizNos = orderNos.map(bizNoOf).sort()
    await this.database.write(async (tx) => {
      await tx.runIn(
        `UPDATE ${tables.message} SET status = ${SENT}, next_retry_time = ${tx.dialect.now} WHERE status <> ${SENT} AND biz_no IN (??)`,
        [],
        bizNos,
      )
      await resolveTasks(tx, tables, bizNos, BY_US)
    })
  }
}

function releaseOf({ bizNo, lease, payload }: LeasedMessage): OwedRelease | null {
  try {
    const { reservation, reason } = JSON.parse(payload)
    return { id: bizNo, lease, reservation: check.reservation(reservation), reason: String(reason) }
  } catch {
    return null
  }
}
