import { newOrderNo } from '../../src/core/order-no.js'
import type { Activity, Reservation } from '../../src/core/types.js'
import { KnexActivityControl, KnexOrderBook } from '../../src/knex/index.js'
import { freshDatabase } from '../../test/harness/databases.js'
import { startMariadb } from '../../test/harness/services/mariadb.js'
import { type Measured, median, rounded } from './measure.js'

const CONCURRENCY = 16
const BATCH = 256
const ROUNDS = 5
/** Enough that a round takes one to two seconds on either side. */
const SINGLES = 800
const BATCHES = 96
const BUYERS = 1_500
const CLICKS = 12_000

/**
 * Group commit against one transaction an order, and strong mode: MariaDB with flushed commits, one hot stock row, by
 * turns in one run. Both sides run the same code; only the number of orders in a call differs.
 */
export async function run(o: { readonly log: (line: string) => void }): Promise<Measured> {
  const server = await startMariadb({ flush: 1 })
  const db = await freshDatabase('mariadb', { server, poolMax: CONCURRENCY })
  try {
    await KnexOrderBook.migrate(db.knex)
    const book = new KnexOrderBook({ knex: db.knex })
    const control = new KnexActivityControl({ knex: db.knex })
    const singles: number[] = []
    const groups: number[] = []
    const strong: number[] = []
    for (let i = 0; i <= ROUNDS; i++) {
      const activityId = `round${i}`
      await book.prepare(activityOf(activityId))
      await control.set(activityId, 'open', { actor: 'bench', reason: 'measure' })
      const [single, group, buy] = [
        await confirms(book, activityId, SINGLES, 1),
        await confirms(book, activityId, BATCHES, BATCH),
        await buys(book, activityId),
      ]
      if (i === 0) continue // warms up
      o.log(`round ${i}: ${rounded(single)}, ${rounded(group)}, ${rounded(buy)} orders/s`)
      singles.push(single)
      groups.push(group)
      strong.push(buy)
    }
    return {
      ratios: {
        groupCommitOf256ToSingle: rounded(median(groups) / median(singles)),
        strongModeToSingle: rounded(median(strong) / median(singles)),
      },
      medians: {
        singleOrdersPerSecond: rounded(median(singles)),
        groupCommitOf256OrdersPerSecond: rounded(median(groups)),
        strongModeOrdersPerSecond: rounded(median(strong)),
      },
    }
  } finally {
    await db.destroy()
    await server.stop()
  }
}

/** Orders a second when `calls` of `size` orders are confirmed, 16 at once. */
async function confirms(
  book: KnexOrderBook,
  activityId: string,
  calls: number,
  size: number,
): Promise<number> {
  const batches = Array.from({ length: calls }, () =>
    Array.from({ length: size }, () => reservation(activityId)),
  )
  return perSecond(calls * size, CONCURRENCY, async () => {
    for (let batch = batches.pop(); batch; batch = batches.pop())
      for (const { status } of await book.confirm(batch)) mustBeConfirmed(status)
  })
}

/** Orders a second when 1,500 buyers click and wait, again and again. */
async function buys(book: KnexOrderBook, activityId: string): Promise<number> {
  let clicks = CLICKS
  return perSecond(CLICKS, BUYERS, async () => {
    while (clicks-- > 0) mustBeConfirmed((await book.buy(reservation(activityId))).status)
  })
}

async function perSecond(
  orders: number,
  workers: number,
  work: () => Promise<void>,
): Promise<number> {
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: workers }, work))
  return (orders * 1_000) / (performance.now() - startedAt)
}

/** A refusal costs less than an order; a bench that measures refusals measures nothing. */
function mustBeConfirmed(status: string): void {
  if (status !== 'confirmed') throw new Error(`an order was not confirmed but ${status}`)
}

function activityOf(activityId: string): Activity {
  return {
    activityId,
    version: 'v1',
    opensAt: Date.now(),
    endsAt: Date.now() + 3_600_000,
    payWithinMs: 900_000,
    mode: 'queued',
    tokens: 'off',
    maxPerOrder: 1,
    skus: [{ skuId: 's1', units: 1_000_000, priceMinor: 990, currency: 'CNY' }],
  }
}

let buyers = 0
function reservation(activityId: string): Reservation {
  return {
    orderNo: newOrderNo(),
    activityId,
    skuId: 's1',
    userId: `1849302938${buyers++}`,
    quantity: 1,
    bucket: 0,
    version: 'v1',
    reservedAt: Date.now(),
    payload: { addressId: '77012' },
  }
}
