import type { Batch, BatchHandler, Consumer, Queue, Sent } from 'flash-sale-kit'
import { KnexOrderBook } from 'flash-sale-kit/knex'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { until } from '../harness/net.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { openShop } from '../suites/pipeline/shop.js'

const DEADLINE_MS = 60
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** What the first send does; the broker has the message each time. Later sends are honest. */
const LIES = {
  'rejects with a timeout': async (store) => {
    store()
    throw new Error('DEADLINE_EXCEEDED')
  },
  'is stored by two brokers, then rejects': async (store) => {
    store()
    store()
    throw new Error('DEADLINE_EXCEEDED')
  },
  'says unknown': async (store) => {
    store()
    return 'unknown'
  },
  'is accepted after the deadline': async (store) => {
    store()
    await sleep(2 * DEADLINE_MS)
    return 'accepted'
  },
  'is rejected, although it was stored': async (store) => {
    store()
    return 'rejected'
  },
  'is rejected, and stored later by a broker that came back': async (store) => {
    void sleep(2 * DEADLINE_MS).then(store)
    return 'rejected'
  },
  'is rejected after the deadline, although it was stored': async (store) => {
    store()
    await sleep(2 * DEADLINE_MS)
    return 'rejected'
  },
} satisfies Record<string, (store: () => void) => Promise<Sent>>

/** A broker whose first answer is a lie, and whose messages wait until the test hands them over. */
class LyingQueue implements Queue {
  readonly messages: Batch[] = []
  sends = 0
  settled = 0
  private handler: BatchHandler | null = null

  constructor(private readonly lie: (store: () => void) => Promise<Sent>) {}

  async start(): Promise<void> {}
  async stop(): Promise<void> {}
  async [Symbol.asyncDispose](): Promise<void> {}
  async lag() {
    return 'unknown' as const
  }

  async send(batch: Batch): Promise<Sent> {
    const store = () => void this.messages.push(JSON.parse(JSON.stringify(batch)))
    if (++this.sends === 1) return this.lie(store).finally(() => this.settled++)
    store()
    this.settled++
    return 'accepted'
  }

  consume(handler: BatchHandler): Consumer {
    this.handler = handler
    return { pause: async () => {}, resume: () => {}, stop: async () => {} }
  }

  /** Each message in a delivery of its own, in this order. */
  async hand(messages: readonly Batch[]): Promise<void> {
    const { signal } = new AbortController()
    for (const batch of messages)
      expect(await this.handler?.({ batches: [batch], attempt: 1, signal })).toBe('ack')
  }
}

let redis: FreshRedis
let db: FreshDatabase
beforeAll(async () => {
  redis = await freshRedis()
  db = await freshDatabase('sqlite')
  await KnexOrderBook.migrate(db.knex)
})
afterAll(async () => {
  await redis.destroy()
  await db.destroy()
})

const ORDERS = [
  ['in the order sent', (m: readonly Batch[]) => m],
  ['the last first', (m: readonly Batch[]) => [...m].reverse()],
  ['each of them twice', (m: readonly Batch[]) => [...m, ...m]],
] as const
const CROWDS = [
  ['another buyer is faster than the first', ['u2', 'u1']],
  ['the first buyer is faster than another', ['u1', 'u2']],
] as const

describe.each(Object.entries(LIES))('C14: S=1, a send that %s', (name, lie) => {
  describe.each(CROWDS)('when %s', (_, next) => {
    test.each(ORDERS)('messages handled %s: one order, at most one release', async (_, arrange) => {
      const queue = new LyingQueue(lie)
      const shop = await openShop(
        { redis: redis.redis, knex: db.knex },
        { units: 1, sale: { queue, stock: { deliverTimeoutMs: DEADLINE_MS } } },
      )
      shop.sale.worker({ ordersPerSecond: 1_000 })
      await shop.sale.start()
      try {
        const first = await shop.buy('u1')
        // A definite no, and only that, lets the buyer click again; an unknown outcome keeps his place.
        const definite = name.startsWith('is rejected') && !name.includes('after the deadline')
        expect(first.status).toBe(definite ? 'try-again' : 'queued')
        const answers = [first]
        for (const user of next) answers.push(await shop.buy(user))
        await until('every send has been answered', () => queue.settled === queue.sends)
        await sleep(definite ? 3 * DEADLINE_MS : 0)

        await queue.hand(arrange(queue.messages))
        const relay = shop.sale.relay()
        await until('all is settled', async () => {
          await relay.run()
          const n = await shop.sale.stock.numbers(shop.ref)
          return n.waiting === 0 && n.owed === 0
        })
        await expectOneOrder(shop, answers)
      } finally {
        await shop.sale.stop()
      }
    })
  })
})

async function expectOneOrder(
  shop: Awaited<ReturnType<typeof openShop>>,
  answers: readonly { readonly status: string }[],
): Promise<void> {
  const rows = []
  for await (const row of shop.orders.snapshot(shop.ref)) rows.push(row)
  const live = rows.filter((row) => row.status !== 'closed')
  expect(live.map((row) => row.status)).toEqual(['confirmed'])
  expect(rows.length).toBeLessThanOrEqual(2)
  expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({
    total: 1,
    available: 0,
    frozen: 1,
    sold: 0,
    pending: 0,
    over: 0,
  })
  expect((await shop.orders.numbers(shop.ref))?.available).toBe(0)
  // Redis remembers each release by its number, beside the sentinel.
  const released = await redis.redis.hlen(`seckill:released:{${shop.ref.activityId}}`)
  expect(released - 1).toBe(rows.length - 1)
  // Whoever was told a number has that order, or hears why not.
  for (const answer of answers)
    if ('orderNo' in answer && answer.status === 'queued')
      expect(rows.map((row) => row.orderNo)).toContain(answer.orderNo)
  const [winner] = live
  expect(await shop.result(winner?.userId ?? '')).toEqual({
    status: 'confirmed',
    orderNo: winner?.orderNo,
  })
}
