import { setTimeout as sleep } from 'node:timers/promises'
import {
  BackpressureGate,
  oldestUnconfirmed,
  type ProbeReading,
  queueLag,
  type Submitted,
  TriangleReconciler,
} from 'flash-sale-kit'
import type { RedisStreamQueue } from 'flash-sale-kit/redis-streams'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { KnexOrderBook } from '../../src/knex/index.js'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { until } from '../harness/net.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { openShop, type ShopOptions } from '../suites/pipeline/shop.js'
import { Topic } from '../suites/redis-streams.js'

/** How long the consumers stand still; a long run sets it to 60,000. */
const PAUSE_MS = Number(process.env.PAUSE_MS ?? 4_000)
const LIMIT = { timeout: PAUSE_MS + 60_000 }
const UNITS = 5_000
/** On top of what is stated: a machine with other work. */
const SLACK_MS = 500

let redis: FreshRedis
let db: FreshDatabase
beforeAll(async () => {
  redis = await freshRedis()
  db = await freshDatabase('mariadb')
  await KnexOrderBook.migrate(db.knex)
})
afterAll(async () => {
  await redis?.destroy()
  await db?.destroy()
})

interface Click {
  readonly userId: string
  readonly at: number
  readonly answer: Submitted
}

/** A sale whose worker stands still; buyers come one after the other, each in a message of his own. */
async function pausedSale(
  o: ShopOptions['activity'],
  gate?: (q: RedisStreamQueue) => BackpressureGate,
) {
  const topic = new Topic(redis)
  const queue = await topic.open({ maxAttempts: 16 })
  const backpressure = gate?.(queue)
  const shop = await openShop(
    { redis: redis.redis, knex: db.knex },
    { units: UNITS, activity: o ?? {}, sale: { queue, ...(backpressure ? { backpressure } : {}) } },
  )
  const { sale, ref } = shop
  const worker = sale.worker({ ordersPerSecond: 100, maxBatches: 2 })
  sale.relay({ everyMs: 100 })
  await sale.start()
  await worker.pause()
  const clicks: Click[] = []
  const click = async (): Promise<Click> => {
    const userId = `u${clicks.length}`
    const answer = await shop.buy(userId)
    const done = { userId, at: performance.now(), answer }
    clicks.push(done)
    await sleep(10)
    return done
  }
  const queued = () => clicks.filter((c) => c.answer.status === 'queued')
  return {
    ...{ shop, worker, clicks, click, queued, queue },
    /** Clicks until the pause is over; the first refusal, and all that came before it. */
    async besiege(cause: string) {
      const begun = performance.now()
      while (performance.now() < begun + PAUSE_MS) await click()
      const first = clicks.findIndex((c) => c.answer.status === 'busy')
      expect(first, 'somebody was refused').toBeGreaterThan(0)
      for (const { answer } of clicks.slice(0, first)) expect(answer.status).toBe('queued')
      for (const { answer } of clicks.slice(first))
        expect(answer).toMatchObject({ status: 'busy', cause })
      // Nobody is told "success" before it is one.
      for (const { userId } of queued()) expect((await shop.result(userId)).status).toBe('queued')
      expect((await shop.orders.numbers(ref))?.available).toBe(UNITS)
      const { at } = clicks[first] as Click
      return { begun, closedAt: at, admitted: first }
    },
    /** Goes on clicking until somebody is let in again. */
    async untilReopened() {
      const end = performance.now() + 20_000
      while (performance.now() < end) {
        const { answer } = await click()
        if (answer.status === 'queued') return
        expect(answer.status).toBe('busy')
      }
      expect.fail('admission did not reopen')
    },
    async expectWhole() {
      await until('all is settled', async () => {
        const n = await sale.stock.numbers(ref)
        return n.waiting === 0 && n.owed === 0
      })
      const won = queued()
      for (const { userId, answer } of won)
        expect(await shop.result(userId)).toEqual({
          status: 'confirmed',
          orderNo: 'orderNo' in answer ? answer.orderNo : null,
        })
      const numbers = await sale.stock.numbers(ref)
      expect(numbers).toMatchObject({ available: UNITS - won.length, pending: 0, over: 0 })
      expect((await shop.orders.numbers(ref))?.available).toBe(UNITS - won.length)
      const { stock } = sale
      const { orders, activities } = shop
      const reconciler = new TriangleReconciler({ stock, orders, activities, graceMs: 0 })
      const report = await reconciler.inspect(ref.activityId)
      expect(report.findings).toEqual([])
      expect(report.difference).toBe(0)
      expect(topic.dead).toEqual([])
    },
    async close() {
      await sale.stop()
      await topic.close()
    },
  }
}

test(
  'V4: consumers paused: the watermark admits no more than it says, and reopens at half',
  LIMIT,
  async () => {
    const high = 20
    const paused = await pausedSale({ watermark: high })
    try {
      const { admitted } = await paused.besiege('watermark')
      expect(admitted).toBe(high)
      paused.worker.resume()
      await paused.untilReopened()
      // Only this buyer came since, so no more than this waited when he was let in.
      const { waiting } = await paused.shop.sale.stock.numbers(paused.shop.ref)
      expect(waiting).toBeLessThanOrEqual(high / 2 + 1)
      await paused.expectWhole()
    } finally {
      await paused.close()
    }
  },
)

test.each([
  ['queue-lag', 'messages', { high: 20, low: 5 }],
  ['oldest-unconfirmed', 'ms', { high: 1_000, low: 300 }],
] as const)(
  'V4: consumers paused: %s closes the gate in time, and reopens it by itself',
  LIMIT,
  async (name, unit, marks) => {
    const intervalMs = 250
    const changes: ProbeReading[] = []
    const paused = await pausedSale({}, (queue) => {
      const probe = name === 'queue-lag' ? queueLag(queue, marks) : oldestUnconfirmed(queue, marks)
      return new BackpressureGate({
        probes: [probe],
        intervalMs,
        onChange: (reading) => changes.push(reading),
      })
    })
    try {
      const { begun, closedAt } = await paused.besiege('probe')
      const reached =
        unit === 'ms' ? begun + marks.high : (paused.clicks[marks.high - 1]?.at ?? Number.NaN)
      expect(closedAt - reached).toBeLessThan(intervalMs + SLACK_MS)
      paused.worker.resume()
      await paused.untilReopened()
      await paused.expectWhole()
      expect(changes.slice(0, 2).map((c) => [c.name, c.state])).toEqual([
        [name, 'high'],
        [name, 'open'],
      ])
      expect(changes[0]?.value).toBeGreaterThanOrEqual(marks.high)
      expect(changes[1]?.value).toBeLessThanOrEqual(marks.low)
    } finally {
      await paused.close()
    }
  },
)
