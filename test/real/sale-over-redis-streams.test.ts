import { type FlashSale, signedQueue, TriangleReconciler } from 'flash-sale-kit'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { KnexOrderBook } from '../../src/knex/index.js'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { until } from '../harness/net.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { openShop } from '../suites/pipeline/shop.js'
import { CLAIM_MS, Topic } from '../suites/redis-streams.js'

const UNITS = 60
const BUYERS = 400
const keys = [{ kid: 'k1', secret: Buffer.alloc(32, 9) }]

let redis: FreshRedis
let db: FreshDatabase
beforeAll(async () => {
  redis = await freshRedis()
  db = await freshDatabase('mariadb')
  await KnexOrderBook.migrate(db.knex)
})
afterAll(async () => {
  await redis.destroy()
  await db.destroy()
})

/** The shop that sells has no worker; those that confirm are processes of their own, with a queue instance each. */
async function open() {
  const topic = new Topic(redis)
  const queue = async () => signedQueue(await topic.open({ maxAttempts: 16 }), { keys })
  const shop = await openShop(
    { redis: redis.redis, knex: db.knex },
    { units: UNITS, sale: { queue: await queue() } },
  )
  const confirming = async (ordersPerSecond: number) => {
    const inner = await topic.open({ maxAttempts: 16 })
    const sale: FlashSale = shop.restarted({ queue: signedQueue(inner, { keys }) })
    sale.worker({ ordersPerSecond, maxBatches: 2 })
    await sale.start()
    return { sale, inner }
  }
  const reconciler = new TriangleReconciler({
    stock: shop.sale.stock,
    orders: shop.orders,
    activities: shop.activities,
    graceMs: 0,
  })
  const settled = () =>
    until('all is settled', async () => {
      const n = await shop.sale.stock.numbers(shop.ref)
      return n.waiting === 0 && n.owed === 0
    })
  const expectSold = async () => {
    expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({
      total: UNITS,
      available: 0,
      frozen: UNITS,
      pending: 0,
      over: 0,
    })
    const live = []
    for await (const row of shop.orders.snapshot(shop.ref))
      if (row.status !== 'closed') live.push(row.userId)
    expect(live.length).toBe(UNITS)
    expect(new Set(live).size).toBe(UNITS)
    expect((await reconciler.inspect(shop.ref.activityId)).difference).toBe(0)
    expect(topic.dead).toEqual([])
  }
  /** All at once, so that batches form. */
  const crowd = async () => {
    const users = Array.from({ length: BUYERS }, (_, i) => `u${i}`)
    return Promise.all(users.map((user) => shop.buy(user)))
  }
  return { topic, shop, confirming, settled, expectSold, crowd }
}

test('Q3: a sale over Redis Streams, signed: exactly S orders, and the queue runs empty', async () => {
  const { topic, shop, confirming, settled, expectSold, crowd } = await open()
  const worker = await confirming(2_000)
  try {
    const answers = await crowd()
    expect(answers.filter((a) => a.status === 'queued').length).toBe(UNITS)
    await settled()
    await expectSold()
    expect(await redis.redis.xlen(topic.key)).toBe(0)
  } finally {
    await worker.sale.stop()
    await shop.sale.stop()
    await topic.close()
  }
})

test('V3: a worker that vanishes in the middle loses nothing, and nothing is sold twice', async () => {
  const { topic, shop, confirming, settled, expectSold, crowd } = await open()
  const doomed = await confirming(10) // so slow that it holds messages when it vanishes
  try {
    await crowd()
    await until('it is at work', async () => {
      const { pending } = await shop.sale.stock.numbers(shop.ref)
      return (await shop.orders.numbers(shop.ref))?.available !== UNITS && pending > 0
    })
    await topic.crash(doomed.inner)
    const heir = await confirming(2_000)
    await settled()
    await expectSold()
    await until(
      'the queue is empty, duplicates included',
      async () => (await redis.redis.xlen(topic.key)) === 0,
      10 * CLAIM_MS,
    )
    await heir.sale.stop()
  } finally {
    await doomed.sale.stop({ drainMs: 200 })
    await shop.sale.stop()
    await topic.close()
  }
})
