import { expect, it } from 'vitest'
import type { Activity } from '../../../src/core/types.js'
import {
  activityOf,
  doneKey,
  HOUR,
  KEYS,
  numbersOf,
  PAY_WITHIN,
  REF,
  sku,
  stockKey,
  type World,
} from './world.js'

export function warmUpTests(world: () => World): void {
  const warm = (activity: Activity, live = 0) =>
    world().bucket().warmUp(activity, numbersOf(activity, live))

  it('S1 S3 warms up: one hash a stock with total, available, frozen and version, and the sale stopped', async () => {
    const w = world()
    w.activity = activityOf({ skus: [sku(10), sku(7, 's2')] })
    expect(await warm(w.activity)).toEqual({ status: 'warmed' })
    expect(await w.redis.hgetall('seckill:stock:{a1}:s2')).toMatchObject({
      total: '7',
      available: '7',
      frozen: '0',
      version: 'v1',
    })
    expect(await w.bucket().numbers(REF)).toEqual({
      total: 10,
      available: 10,
      frozen: 0,
      sold: 0,
      pending: 0,
      over: 0,
      state: 'stopped',
      version: 'v1',
      waiting: 0,
      owed: 0,
    })
    expect(await w.bucket().deduct(w.request('u1'))).toEqual({ status: 'stopped' })
    await w.sound()
  })

  it('S4 gives every key one end: the end of the sale, the payment window and two hours', async () => {
    const w = world()
    await w.sale()
    const until = w.activity.endsAt + PAY_WITHIN + 2 * HOUR
    for (const key of [...Object.values(KEYS), stockKey('s1'), doneKey('s1')]) {
      const left = await w.redis.pttl(key)
      expect(Math.abs(Date.now() + left - until), key).toBeLessThan(2_000)
    }
    await w.bucket().deduct(w.request('u1'))
    await w.sound()
  })

  it('C03 a second warm-up, also many at once, is told "already warm" and resets nothing', async () => {
    const w = world()
    const stock = await w.sale({ skus: [sku(100)] })
    const buyers = Array.from({ length: 60 }, (_, i) => stock.deduct(w.request(`u${i}`)))
    await Promise.all(buyers)
    await w.unchanged(async () => {
      const again = await Promise.all(Array.from({ length: 8 }, () => warm(w.activity)))
      expect(again).toEqual(again.map(() => ({ status: 'already-warm' })))
    })
    expect((await stock.numbers(REF)).available).toBe(40)
    await w.sound()
  })

  it('C03 of two first warm-ups at once one warms, the other finds it warm', async () => {
    const w = world()
    w.activity = activityOf()
    const both = await Promise.all([warm(w.activity), warm(w.activity)])
    expect(both.map((r) => r.status).sort()).toEqual(['already-warm', 'warmed'])
    await w.sound()
  })

  it('C03 another version waits until nothing of the last was ever taken and it is stopped', async () => {
    const w = world()
    const stock = await w.sale()
    const next = { ...w.activity, version: 'v2', skus: [sku(12)] }
    expect(await warm(next)).toEqual({ status: 'version-in-use' })
    await stock.control('a1', 'stopped')
    await w.sound()
    expect(await warm(next)).toEqual({ status: 'warmed' })
    w.activity = next
    await w.sound()
    expect(await stock.deduct(w.request('u1', { version: 'v1' }))).toEqual({
      status: 'version-mismatch',
    })
    await stock.control('a1', 'open')
    expect(await stock.deduct(w.request('u1'))).toMatchObject({ status: 'reserved' })
    await stock.control('a1', 'stopped')
    await w.unchanged(async () =>
      expect(await warm({ ...next, version: 'v3' })).toEqual({ status: 'version-in-use' }),
    )
  })

  it('I13 an act that reaches Redis after a later one changes nothing, also when the keys were made anew', async () => {
    const w = world()
    const stock = await w.sale()
    const state = async () => (await stock.numbers(REF)).state
    expect(await stock.control('a1', 'stopped', 8)).toEqual({ acknowledged: 1, of: 1 })
    expect(await stock.control('a1', 'open', 7)).toEqual({ acknowledged: 0, of: 1 })
    expect(await state()).toBe('stopped')
    await stock.revokeTokens('a1', 5)
    w.activity = { ...w.activity, version: 'v2' }
    expect(await warm(w.activity)).toEqual({ status: 'warmed' })
    expect(await stock.control('a1', 'open', 7)).toEqual({ acknowledged: 0, of: 1 })
    expect(await state()).toBe('stopped')
    for (let again = 0; again < 2; again++)
      expect(await stock.control('a1', 'open', 9)).toEqual({ acknowledged: 1, of: 1 })
    expect(await stock.control('a1', 'stopped', 8)).toEqual({ acknowledged: 0, of: 1 })
    expect(await state()).toBe('open')
    // Without a revision it holds whatever was told before.
    expect(await stock.control('a1', 'stopped')).toEqual({ acknowledged: 1, of: 1 })
    expect(await state()).toBe('stopped')
    expect(await stock.control('a1', 'open', 8)).toEqual({ acknowledged: 0, of: 1 })
  })

  it('S7 a top-up that is in the total is in it once, however often it is repeated', async () => {
    const w = world()
    w.activity = activityOf({ skus: [sku(10), sku(15, 's2')] })
    const numbers = { activityId: 'a1', available: 15, live: 0 }
    const topUps = [
      { operationId: 'op1', units: 7 },
      { operationId: 'op2', units: -2 },
    ]
    const expected = [
      { ...numbers, skuId: 's2', total: 15, topUps },
      { ...numbers, skuId: 's1', total: 10 },
    ]
    const stock = w.bucket()
    expect(await stock.warmUp(w.activity, expected)).toEqual({ status: 'warmed' })
    const ref = { activityId: 'a1', skuId: 's2' }
    for (const { operationId, units } of topUps) await stock.topUp(ref, units, operationId)
    expect(await stock.numbers(ref)).toMatchObject({ total: 15, available: 15, over: 0 })
    await stock.topUp(REF, 1, 'op1')
    expect(await stock.numbers(REF)).toMatchObject({ total: 11, available: 11 })
    for (const bad of [
      { operationId: '', units: 1 },
      { operationId: 'op3', units: 0.5 },
    ])
      await expect(
        stock.warmUp(w.activity, [{ ...numbers, skuId: 's2', total: 15, topUps: [bad] }]),
      ).rejects.toMatchObject({ code: 'BAD_INPUT' })
  })

  it('a next version may add, drop and take up SKUs again as long as nothing was taken', async () => {
    const w = world()
    w.activity = activityOf({ skus: [sku(10), sku(10, 's2')] })
    for (const [version, skus, status] of [
      ['v1', [sku(10), sku(10, 's2')], 'warmed'],
      ['v2', [sku(10)], 'warmed'],
      ['v3', [sku(10), sku(5, 's3')], 'warmed'],
      ['v4', [sku(10), sku(9, 's2')], 'warmed'],
      ['v4', [sku(10), sku(9, 's2'), sku(9, 's4')], 'broken'],
    ] as const) {
      const next = { ...w.activity, version, skus }
      expect(await warm(next), version).toEqual({ status })
      if (status !== 'warmed') continue
      w.activity = next
      await w.sound()
    }
    const stock = w.bucket()
    await stock.control('a1', 'open')
    await stock.deduct(w.request('u1', { skuId: 's2' }))
    await stock.control('a1', 'stopped')
    // What was taken was of an SKU that the next version does not even name.
    expect(await warm({ ...w.activity, version: 'v5', skus: [sku(10)] })).toEqual({
      status: 'version-in-use',
    })
  })

  it.each([
    ['opensAt', (a: Activity) => ({ ...a, opensAt: a.opensAt + 1 }), null],
    ['endsAt', (a: Activity) => ({ ...a, endsAt: a.endsAt + 1 }), null],
    ['tokens', (a: Activity) => ({ ...a, tokens: 'required' }), null],
    ['maxPerOrder', (a: Activity) => ({ ...a, maxPerOrder: 1 }), null],
    ['total', (a: Activity) => ({ ...a, skus: [a.skus[0], sku(6, 's2')] }), 's2'],
  ] as const)('S3 names what differs: %s', async (what, change, skuId) => {
    const w = world()
    await w.sale({ skus: [sku(10), sku(7, 's2')] })
    const other = change(w.activity) as Activity
    await w.unchanged(async () =>
      expect(await warm(other)).toEqual({ status: 'differs', what, skuId }),
    )
  })

  it.each([
    ['a number of the stock', (w: World) => w.redis.hdel(stockKey('s1'), 'available')],
    ['the epoch of the stock', (w: World) => w.redis.hdel(stockKey('s1'), ' ')],
    ['the stock', (w: World) => w.redis.del(stockKey('s1'))],
    ['the marks', (w: World) => w.redis.del(doneKey('s1'))],
    ['the sale', (w: World) => w.redis.del(KEYS.sale)],
    ['the tombstones', (w: World) => w.redis.del(KEYS.released)],
    ['what is owed', (w: World) => w.redis.del(KEYS.owed)],
    ['the messages', (w: World) => w.redis.del(KEYS.batch)],
    ['its epoch of now', (w: World) => w.redis.hset(stockKey('s1'), ' ', '1790000000000')],
  ])(
    'C03d without %s it is broken: not sold, and not repaired by a warm-up',
    async (what, harm) => {
      const w = world()
      const stock = await w.sale()
      await harm(w)
      await w.unchanged(async () => {
        expect(await warm(w.activity)).toEqual({ status: 'broken' })
        const sold = await stock.deduct(w.request('u1')).catch((error) => error)
        expect(sold).toMatchObject(
          what === 'a number of the stock' ? { code: 'CORRUPT' } : { status: 'not-warmed' },
        )
      })
    },
  )

  it('C04 live orders in the database and no keys is broken: a rebuild is needed, not a fresh stock', async () => {
    const w = world()
    w.activity = activityOf()
    expect(await warm(w.activity, 4)).toEqual({ status: 'broken' })
    expect(await w.redis.keys('*')).toEqual([])
  })

  it('S9 a running sale refuses another script set; a stopped one moves on to it', async () => {
    const w = world()
    const stock = await w.sale()
    await w.redis.hset(KEYS.sale, 'scripts', 'f'.repeat(40))
    await w.unchanged(async () => {
      expect(await stock.deduct(w.request('u1'))).toEqual({ status: 'script-mismatch' })
      expect(await warm(w.activity)).toEqual({ status: 'differs', what: 'scripts', skuId: null })
    })
    await stock.control('a1', 'stopped')
    expect(await warm(w.activity)).toEqual({ status: 'already-warm' })
    await stock.control('a1', 'open')
    expect(await stock.deduct(w.request('u1'))).toMatchObject({ status: 'reserved' })
    await w.sound()
  })
}
