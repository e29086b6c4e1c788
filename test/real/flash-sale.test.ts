import { KnexOrderBook } from 'flash-sale-kit/knex'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { flashSaleSuite } from '../suites/pipeline/flash-sale.js'
import { reconcileSuite } from '../suites/pipeline/reconcile.js'
import { openShop } from '../suites/pipeline/shop.js'

describe.each(['mariadb', 'postgres'] as const)('on Redis and %s', (kind) => {
  let redis: FreshRedis
  let database: FreshDatabase

  beforeAll(async () => {
    ;[redis, database] = await Promise.all([freshRedis(), freshDatabase(kind)])
    await KnexOrderBook.migrate(database.knex)
  })
  afterAll(async () => {
    await redis.destroy()
    await database.destroy()
  })

  const backend = () => ({ redis: redis.redis, knex: database.knex })
  flashSaleSuite(backend)

  test('a Redis that went back in time closes the sale, durably, and alerts', async () => {
    const shop = await openShop(backend())
    const client = redis.redis
    const keys = await client.keys(`*{${shop.ref.activityId}}*`)
    const dumps = await Promise.all(keys.map((key) => client.dumpBuffer(key)))
    expect(await shop.buy('u1')).toMatchObject({ status: 'queued' })
    await Promise.all(keys.map((key, i) => client.restore(key, 0, dumps[i] as Buffer, 'REPLACE')))
    const crowd = await Promise.all(Array.from({ length: 300 }, (_, i) => shop.buy(`u${i + 2}`)))
    expect(new Set(crowd.map((answer) => answer.status))).toEqual(new Set(['rewound']))
    expect(shop.alerts).toContain('rewound')
    const stops = shop.knex('seckill_audit').where({ activity_id: shop.ref.activityId })
    // The warm-up's, and one for the whole crowd.
    expect(await stops.where('act', 'like', 'stop%')).toHaveLength(2)
    expect(await shop.options.control.read(shop.ref.activityId)).toMatchObject({ state: 'stopped' })
    expect(await shop.buy('n')).toEqual({ status: 'stopped' })
    expect((await shop.sale.stock.numbers(shop.ref)).available).toBe(10)
  })
  reconcileSuite(backend)
})
