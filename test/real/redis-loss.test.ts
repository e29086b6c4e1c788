import { KnexFences, KnexLeases, KnexOrderBook } from 'flash-sale-kit/knex'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { until } from '../harness/net.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { AUDIT, openShop, type Shop, type ShopOptions } from '../suites/pipeline/shop.js'
import {
  bought,
  buyer,
  decided,
  dumped,
  expectSound,
  keysOf,
  settled,
} from '../suites/rebuild/kit.js'

describe.each(['mariadb', 'postgres'] as const)('on Redis and %s', (kind) => {
  let redis: FreshRedis
  let database: FreshDatabase
  const open: Shop[] = []

  beforeAll(async () => {
    database = await freshDatabase(kind)
    await KnexOrderBook.migrate(database.knex)
  })
  beforeEach(async () => {
    redis = await freshRedis()
    await database.knex('seckill_activity_terms').update({ live: 0 })
    await database.knex('seckill_lease').del()
  })
  afterEach(async () => {
    await Promise.all(open.splice(0).map((shop) => shop.sale.stop()))
    await redis.destroy()
  })
  afterAll(() => database.destroy())

  const shopOf = async (o: ShopOptions = {}) => {
    const { knex } = database
    const sale = { fences: new KnexFences({ knex }), ...o.sale }
    const shop = await openShop({ redis: redis.redis, knex }, { ...o, sale })
    open.push(shop)
    return shop
  }
  const guardianOf = (shop: Shop, sale = shop.sale) =>
    sale.guardian({ leases: new KnexLeases({ knex: database.knex }), everyMs: 50 })
  const stateOf = async (shop: Shop) => ({
    row: (await shop.options.control.read(shop.ref.activityId)).state,
    redis: (await shop.sale.stock.numbers(shop.ref)).state,
  })

  test('S10 C20: FLUSHALL in mid-sale pauses admission, rebuilds, resumes, and exactly S are sold', async () => {
    const units = 400
    const shop = await shopOf({ units })
    shop.sale.worker({ ordersPerSecond: 2_000 })
    shop.sale.relay({ everyMs: 50, leaseMs: 500 })
    guardianOf(shop)
    await shop.sale.start()
    const heard = new Set<string>()
    let next = 0
    let flushed = false
    const browser = async () => {
      for (let clicks = 0; clicks < 20_000; clicks++) {
        const outcome = await shop.sale.submit({ ...shop.ref, buyer: buyer(next++ % 1_500) })
        heard.add(outcome.status)
        if (outcome.status === 'sold-out' && flushed) return
        if (!flushed && next > 150) {
          flushed = true
          await redis.redis.flushall()
        }
        if (outcome.status === 'stopped' || outcome.status === 'not-warmed')
          await new Promise((resolve) => setTimeout(resolve, 20))
      }
    }
    await Promise.all(Array.from({ length: 20 }, browser))
    await decided(shop)
    // Units that a forgotten number has left behind in the database find their buyers too.
    await until('all is sold', async () => {
      await shop.sale.submit({ ...shop.ref, buyer: buyer(`late${next++}`) })
      return (await shop.orders.numbers(shop.ref))?.available === 0
    })
    await decided(shop)
    await expectSound(shop, units)
    expect(await shop.orders.numbers(shop.ref)).toMatchObject({ available: 0, live: units })
    expect(heard).toContain('not-warmed')
    for (const alert of ['not-warmed', 'redis-lost', 'redis-rebuilt'])
      expect(shop.alerts).toContain(alert)
    expect(await stateOf(shop)).toEqual({ row: 'open', redis: 'open' })
  })

  test('S10: a single key evicted is a loss of all, and the sale goes on', async () => {
    const shop = await shopOf()
    await bought(shop, 4)
    const guardian = guardianOf(shop)
    await guardian.run()
    const keys = await keysOf(redis.redis, shop)
    await redis.redis.del(keys.find((key) => key.startsWith('seckill:done')) as string)
    expect(await shop.buy('n')).toEqual({ status: 'not-warmed' })
    await guardian.run()
    await expectSound(shop, 10)
    expect(await shop.buy('u1')).toMatchObject({ status: 'already-bought' })
    expect(await shop.buy('n')).toMatchObject({ status: 'queued' })
    await settled(shop, 10)
  })

  test('S10: Redis restarted with an old file: noticed, rebuilt, resumed', async () => {
    const shop = await shopOf()
    await bought(shop, 3)
    const guardian = guardianOf(shop)
    await guardian.run()
    await redis.redis.save()
    for (let i = 3; i < 7; i++) await shop.buy(`u${i}`)
    const worker = shop.sale.worker({ ordersPerSecond: 1_000, database: null })
    await worker.start()
    await decided(shop)
    await worker.stop()
    await guardian.run()
    await redis.server.kill('SIGKILL')
    await guardian.run()
    expect(shop.alerts).toContain('guardian-failed')
    await redis.server.restart()
    await until('Redis answers', async () => (await redis.redis.ping()) === 'PONG')
    await guardian.run()
    expect(shop.alerts).toContain('redis-rebuilt')
    await expectSound(shop, 10)
    expect(await stateOf(shop)).toEqual({ row: 'open', redis: 'open' })
    expect(await shop.buy('u6')).toMatchObject({ status: 'already-bought' })
  })

  test('S10: all processes restarted together with the failover: what the database keeps of the fence is not fooled', async () => {
    const shop = await shopOf()
    await bought(shop, 3)
    const restore = await dumped(redis.redis, shop)
    for (let i = 3; i < 7; i++) await shop.buy(`u${i}`)
    await guardianOf(shop).run()
    await restore()
    await database.knex('seckill_lease').del()
    const again = shop.restarted()
    await again.start()
    // Not one unit leaves, guardian or not.
    expect(await again.submit({ ...shop.ref, buyer: buyer('n') })).toEqual({ status: 'rewound' })
    await guardianOf(shop, again).run()
    expect(shop.alerts).toContain('redis-lost')
    expect(await stateOf(shop)).toEqual({ row: 'open', redis: 'open' })
    await again.stop()
    await settled(shop, 10)
  })

  test('a guardian that has just started notices it too, before the first click', async () => {
    const shop = await shopOf()
    await bought(shop, 3)
    const restore = await dumped(redis.redis, shop)
    for (let i = 3; i < 5; i++) await shop.buy(`u${i}`)
    await guardianOf(shop).run()
    await restore()
    await database.knex('seckill_lease').del()
    await guardianOf(shop, shop.restarted()).run()
    expect(shop.alerts).toContain('redis-rebuilt')
    await settled(shop, 10)
  })

  describe('ST1 ST2 what a failover does to stop and open', () => {
    test('ST1: a stop that Redis has forgotten is put into force again, and nobody buys meanwhile', async () => {
      const shop = await shopOf()
      await bought(shop, 2)
      const restore = await dumped(redis.redis, shop)
      await shop.sale.control(shop.ref.activityId, 'stopped', AUDIT)
      await restore()
      expect(await stateOf(shop)).toEqual({ row: 'stopped', redis: 'open' })
      expect(await shop.buy('n')).toEqual({ status: 'stopped' })
      await guardianOf(shop).run()
      expect(await stateOf(shop)).toEqual({ row: 'stopped', redis: 'stopped' })
      expect(shop.alerts).toContain('stop-reapplied')
      await expectSound(shop, 10)
    })

    test("ST2: a person's stop is left alone after a loss: nothing is rebuilt, nothing opened", async () => {
      const shop = await shopOf()
      await bought(shop, 2)
      await shop.sale.control(shop.ref.activityId, 'stopped', AUDIT)
      await redis.redis.flushall()
      const guardian = guardianOf(shop)
      await guardian.run()
      await guardian.run()
      expect(await keysOf(redis.redis, shop)).toEqual([])
      expect(shop.alerts).toEqual([])
      expect((await shop.options.control.read(shop.ref.activityId)).state).toBe('stopped')
    })

    test('an opening that Redis has forgotten is reported once, and left to a person', async () => {
      const shop = await shopOf()
      await shop.sale.stock.control(shop.ref.activityId, 'stopped')
      const guardian = guardianOf(shop)
      for (let i = 0; i < 4; i++) await guardian.run()
      expect(shop.alerts).toEqual(['open-lost'])
      expect(await stateOf(shop)).toEqual({ row: 'open', redis: 'stopped' })
    })

    test('an opening of its own that a crash cut in two is finished', async () => {
      const shop = await shopOf()
      await redis.redis.flushall()
      const guardian = guardianOf(shop)
      await guardian.run()
      await shop.sale.stock.control(shop.ref.activityId, 'stopped')
      await guardian.run()
      expect(await stateOf(shop)).toEqual({ row: 'open', redis: 'open' })
    })

    test('a stop of the library is ended after a rebuild; one that a person has repeated is not', async () => {
      const shop = await shopOf()
      await bought(shop, 2)
      const restore = await dumped(redis.redis, shop)
      await shop.buy('u2')
      await restore()
      expect(await shop.buy('n')).toEqual({ status: 'rewound' })
      expect((await shop.options.control.read(shop.ref.activityId)).state).toBe('stopped')
      const guardian = guardianOf(shop)
      await guardian.run()
      expect(await stateOf(shop)).toEqual({ row: 'open', redis: 'open' })
      const restoreAgain = await dumped(redis.redis, shop)
      expect(await shop.buy('u3')).toMatchObject({ status: 'queued' })
      await restoreAgain()
      expect(await shop.buy('n')).toEqual({ status: 'rewound' })
      await shop.sale.control(shop.ref.activityId, 'stopped', AUDIT)
      await guardian.run()
      expect((await shop.options.control.read(shop.ref.activityId)).state).toBe('stopped')
    })
  })

  test('one guardian of all processes acts, and another takes over', async () => {
    const shop = await shopOf()
    const other = shop.restarted()
    const [first, second] = [guardianOf(shop), guardianOf(shop, other)]
    await first.run()
    await redis.redis.flushall()
    await second.run()
    expect(await keysOf(redis.redis, shop)).toEqual([])
    await first.stop()
    await second.run()
    expect(await stateOf(shop)).toEqual({ row: 'open', redis: 'open' })
    await second.stop()
    await other.stop()
  })

  test('numbers that were tampered with are reported once and not written over', async () => {
    const shop = await shopOf()
    await redis.redis.hset(`seckill:stock:{${shop.ref.activityId}}:s1`, 'available', '11')
    const guardian = guardianOf(shop)
    await guardian.run()
    await guardian.run()
    expect(shop.alerts).toEqual(['stock-corrupt'])
  })

  test('C04 (d): a Redis that may evict keys is named at warm-up and by the guardian, one that forbids INFO is unknown', async () => {
    await redis.redis.config('SET', 'maxmemory-policy', 'allkeys-lru')
    const shop = await shopOf()
    expect(shop.alerts).toEqual(['eviction-policy'])
    expect((await shop.sale.stock.standing(shop.activity)).eviction).toBe('allkeys-lru')
    const guardian = guardianOf(shop)
    await guardian.run()
    await guardian.run()
    expect(shop.alerts).toEqual(['eviction-policy', 'eviction-policy'])
    await redis.redis.call('ACL', 'SETUSER', 'shy', 'on', '>x', '~*', '+@all', '-info')
    const shy = redis.client({ username: 'shy', password: 'x', enableReadyCheck: false })
    expect(await shop.restarted({ redis: shy }).stock.standing(shop.activity)).toMatchObject({
      status: 'warm',
      eviction: 'unknown',
    })
  })

  test('start and stop may be called at any time; bad options are refused before any I/O', async () => {
    const shop = await shopOf()
    const guardian = guardianOf(shop)
    await shop.sale.start()
    await Promise.all([guardian.stop(), guardian.stop()])
    await expect(guardian.start()).rejects.toMatchObject({ code: 'STOPPED' })
    const leases = new KnexLeases({ knex: database.knex })
    for (const bad of [
      {},
      { leases: null },
      { leases, everyMs: 0 },
      { leases, everyMs: 1.5 },
      null,
    ])
      expect(() => shop.sale.guardian(bad as never)).toThrow(/option/)
    for (const [id, audit, o] of [
      [7, AUDIT, {}],
      ['x'.repeat(10_000), AUDIT, {}],
      ['nobody', AUDIT, {}],
      [shop.ref.activityId, {}, {}],
      [shop.ref.activityId, AUDIT, { waitMs: Number.NaN }],
      [shop.ref.activityId, AUDIT, { waitMs: 1n }],
      [shop.ref.activityId, AUDIT, { reopen: 'yes' }],
      [shop.ref.activityId, AUDIT, 7],
    ] as const)
      await expect(shop.sale.rebuild(id as never, audit as never, o as never)).rejects.toThrow(
        /must be/,
      )
    expect(await stateOf(shop)).toEqual({ row: 'open', redis: 'open' })
  })
})
