import { FlashSale, MemoryQueue, newOrderNo, type Reservation, StockBucket } from 'flash-sale-kit'
import { KnexActivityControl, KnexFences, KnexOrderBook } from 'flash-sale-kit/knex'
import { Redis } from 'ioredis'
import { describe, expect, test } from 'vitest'
import { freshDatabase } from '../harness/databases.js'
import { freshRedis } from '../harness/redis.js'
import { startRedisCluster } from '../harness/services/redis.js'
import { AUDIT, openShop } from '../suites/pipeline/shop.js'
import { bought, expectSound } from '../suites/rebuild/kit.js'

const audit = { actor: 'op', reason: 'a test' }

test('S8 S10: on a cluster every script of a rebuild stays in one slot', async () => {
  const server = await startRedisCluster()
  const redis = new Redis({ port: server.port })
  const database = await freshDatabase('sqlite')
  try {
    await KnexOrderBook.migrate(database.knex)
    const shop = await openShop({ redis, knex: database.knex })
    await bought(shop, 4)
    await redis.flushall()
    expect(
      await shop.sale.rebuild(shop.ref.activityId, AUDIT, { waitMs: 0, reopen: true }),
    ).toMatchObject({ status: 'rebuilt', state: 'open' })
    await expectSound(shop, 10)
  } finally {
    await database.destroy()
    redis.disconnect()
    await server.stop()
  }
})

test('S10: 100,000 orders are rebuilt', async () => {
  const redis = await freshRedis()
  const database = await freshDatabase('mariadb')
  try {
    await KnexOrderBook.migrate(database.knex)
    const shop = await openShop({ redis: redis.redis, knex: database.knex }, { units: 100_000 })
    const { orders, ref, sale } = shop
    for (let i = 0; i < 100_000; i += 5_000) {
      const some = Array.from(
        { length: 5_000 },
        (_, j): Reservation => ({
          ...{ ...ref, orderNo: newOrderNo(), userId: String(10 ** 9 + i + j), quantity: 1 },
          ...{ bucket: 0, version: '1', reservedAt: Date.now() },
        }),
      )
      await orders.confirm(some)
    }
    await redis.redis.flushall()
    expect(await sale.rebuild(ref.activityId, AUDIT, { waitMs: 0, reopen: true })).toMatchObject({
      ...{ status: 'rebuilt', state: 'open', orders: 100_000, adopted: 0, returned: 0 },
    })
    expect(await sale.stock.numbers(ref)).toMatchObject({ available: 0, frozen: 100_000, over: 0 })
    expect(await redis.redis.hlen(`seckill:done:{${ref.activityId}}:s1`)).toBe(100_001)
    expect(await shop.buy(String(10 ** 9 + 77_777))).toMatchObject({ status: 'already-bought' })
    expect(await shop.buy('n')).toEqual({ status: 'sold-out' })
  } finally {
    await database.destroy()
    await redis.destroy()
  }
}, 300_000)

describe.each(['sqlite', 'mariadb', 'postgres', 'mysql'] as const)('on %s', (kind) => {
  test('fences only rise, by epoch and then by seq, also when many raise at once', async () => {
    const database = await freshDatabase(kind)
    try {
      await KnexOrderBook.migrate(database.knex)
      const fences = new KnexFences({ knex: database.knex })
      expect(await fences.read('a1')).toEqual({ epoch: 0, seq: 0 })
      await Promise.all(
        Array.from({ length: 10 }, (_, i) => fences.raise('a1', { epoch: 5, seq: (i * 7) % 10 })),
      )
      expect(await fences.read('a1')).toEqual({ epoch: 5, seq: 9 })
      expect(await fences.raise('a1', { epoch: 4, seq: 100 })).toEqual({ epoch: 5, seq: 9 })
      expect(await fences.raise('a1', { epoch: 6, seq: 0 })).toEqual({ epoch: 6, seq: 0 })
      expect(await fences.read('a2')).toEqual({ epoch: 0, seq: 0 })
      for (const [id, fence] of [
        [7, { epoch: 1, seq: 1 }],
        ['x'.repeat(10_000), { epoch: 1, seq: 1 }],
        ['a1', null],
        ['a1', { epoch: 9.5, seq: 1 }],
        ['a1', { epoch: 9, seq: -1 }],
        ['a1', { epoch: 9n, seq: 1 }],
      ])
        await expect(fences.raise(id as never, fence as never)).rejects.toMatchObject({
          code: 'BAD_INPUT',
        })
      expect(await fences.read('a1')).toEqual({ epoch: 6, seq: 0 })
    } finally {
      await database.destroy()
    }
  })

  test('an act that is bound to a revision is done once, and not after another act', async () => {
    const database = await freshDatabase(kind)
    try {
      await KnexOrderBook.migrate(database.knex)
      const control = new KnexActivityControl({ knex: database.knex })
      expect(await control.lastAct('a1')).toBeNull()
      expect(await control.setIf('a1', 'open', audit, 1)).toBeNull()
      const opened = (await control.setIf('a1', 'open', audit, 0)) as number
      expect(opened).toBeGreaterThan(1e12)
      const both = await Promise.all([
        control.setIf('a1', 'stopped', { ...audit, actor: 'ann' }, opened),
        control.setIf('a1', 'stopped', { ...audit, actor: 'bob' }, opened),
      ])
      expect(both.filter((revision) => revision !== null)).toHaveLength(1)
      const revision = both[0] ?? both[1]
      expect(revision).toBeGreaterThan(opened)
      expect(await control.lastAct('a1')).toEqual({
        ...{ state: 'stopped', actor: both[0] ? 'ann' : 'bob', reason: 'a test', revision },
      })
      const acts = await database.knex('seckill_audit').where({ activity_id: 'a1' })
      expect(acts).toHaveLength(2)
      await expect(control.setIf('a1', 'open', audit, 0.5)).rejects.toMatchObject({
        code: 'BAD_INPUT',
      })
    } finally {
      await database.destroy()
    }
  })
})

test('a sale without fences starts, and a strong one has nothing to rebuild', async () => {
  const redis = await freshRedis()
  const database = await freshDatabase('sqlite')
  try {
    await KnexOrderBook.migrate(database.knex)
    const shop = await openShop(
      { redis: redis.redis, knex: database.knex },
      {
        activity: { mode: 'strong' },
      },
    )
    await expect(shop.sale.rebuild(shop.ref.activityId, AUDIT)).rejects.toMatchObject({
      code: 'BAD_INPUT',
    })
    const { queue: _, ...options } = shop.options
    const sale = new FlashSale({ ...options, queue: new MemoryQueue() })
    await sale.start()
    await sale.stop()
    const bare = new StockBucket({ redis: redis.redis, deliver: 'nothing-owed' })
    expect((await bare.standing(shop.activity)).status).toBe('not-warmed')
  } finally {
    await database.destroy()
    await redis.destroy()
  }
})
