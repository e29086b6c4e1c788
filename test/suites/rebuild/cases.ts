import { newOrderNo } from 'flash-sale-kit'
import { describe, expect, test } from 'vitest'
import { openShop, SKU } from '../pipeline/shop.js'
import {
  AUDIT,
  bought,
  decided,
  dumped,
  expectSound,
  halfSold,
  keysOf,
  type RealBackend,
  rush,
  settled,
} from './kit.js'

const LOSSES = [
  ['(a) FLUSHALL', () => /./],
  ['(b) the stock key alone', () => /^seckill:stock:/],
  ['(c) the marks alone', () => /^seckill:done:/],
  ['(c) the tombstones alone', () => /^seckill:released:/],
  ['the owed set alone', () => /^seckill:owed:/],
  ['the messages alone', () => /^seckill:batch:/],
  ['the sale key alone', () => /^seckill:sale:/],
] as const

export function rebuildSuite(backend: () => RealBackend): void {
  const rebuild = { waitMs: 1_000, reopen: true }

  describe('C04 what is lost is never an empty ledger, and is made anew from the database', () => {
    test.each(LOSSES)(
      'C04 %s: not-warmed, then 50 left, then at most 100 sold',
      async (_, which) => {
        const { redis } = backend()
        const shop = await halfSold(backend())
        const { activityId } = shop.ref
        const lost = (await keysOf(redis, shop)).filter((key) => which().test(key))
        await redis.del(...lost)
        expect(await rush(shop, 50)).toEqual({ 'not-warmed': 500 })
        expect(await shop.orders.numbers(shop.ref)).toMatchObject({ total: 100, available: 50 })

        expect(await shop.sale.rebuild(activityId, AUDIT, rebuild)).toMatchObject({
          status: 'rebuilt',
          state: 'open',
          orders: 50,
        })
        expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({
          ...{ total: 100, available: 50, frozen: 10, sold: 40, pending: 0, over: 0 },
          ...{ state: 'open', waiting: 0, owed: 0 },
        })
        await expectSound(shop, 100)
        expect(await rush(shop, 50)).toEqual({ queued: 50, 'already-bought': 250, 'sold-out': 200 })
        await settled(shop, 100)
        expect(await shop.orders.numbers(shop.ref)).toMatchObject({ available: 0, live: 100 })
        expect(await redis.keys(`seckill:rebuild:{${activityId}}:*`)).toEqual([])
      },
    )

    test('C04 all keys of a sale that was rebuilt are those of one that was warmed', async () => {
      const { redis } = backend()
      const shop = await halfSold(backend())
      const ttls = async () => {
        const keys = (await keysOf(redis, shop)).sort()
        return Promise.all(
          keys.map(async (key) => [key, Math.round((await redis.pttl(key)) / 60_000)]),
        )
      }
      const fields = () => redis.hkeys(`seckill:sale:{${shop.ref.activityId}}`)
      const before = { keys: await ttls(), fields: (await fields()).sort() }
      await shop.sale.rebuild(shop.ref.activityId, AUDIT, rebuild)
      const after = {
        keys: await ttls(),
        fields: (await fields()).filter((f) => f !== 'rebuild').sort(),
      }
      expect(after).toEqual(before)
      expect(await shop.sale.warmUp(shop.ref.activityId, AUDIT)).toEqual({ status: 'already-warm' })
    })
  })

  describe('what a rebuild brings back', () => {
    test('closed numbers stay closed: a late click with one of them takes no unit', async () => {
      const shop = await halfSold(backend())
      const row = await shop.orders.findByBuyer(shop.ref, 'u45')
      await shop.orders.closeUnpaid([row?.orderNo as string], 'user|cancelled\n')
      await backend().redis.flushall()
      await shop.sale.rebuild(shop.ref.activityId, AUDIT, rebuild)
      await expectSound(shop, 100)
      expect((await shop.sale.stock.numbers(shop.ref)).available).toBe(51)
      const again = { ...shop.ref, userId: 'u45', version: '1', orderNo: row?.orderNo as string }
      expect(await shop.sale.stock.deduct(again)).toEqual({ status: 'try-again' })
      expect(await shop.result('u45')).toMatchObject({
        status: 'closed',
        reason: 'user cancelled ',
      })
      // What the outbox still says of it changes nothing.
      await shop.knex('local_message').update({ next_retry_time: 0 })
      await shop.sale.relay().run()
      expect((await shop.sale.stock.numbers(shop.ref)).available).toBe(51)
      expect(await shop.buy('u45')).toMatchObject({ status: 'queued' })
    })

    test('a buyer with a closed and a live order keeps the mark of the live one, whichever is older', async () => {
      const shop = await openShop(backend(), { units: 10 })
      const { ref, orders } = shop
      const at = Date.now() - 60_000
      const of = (userId: string, madeAt: number) => ({
        ...{ ...ref, orderNo: newOrderNo(madeAt), userId, quantity: 1, bucket: 0, version: '1' },
        reservedAt: at,
      })
      const [closedFirst, liveAfter, liveFirst, closedAfter] = [
        ...[of('a', at), of('a', at + 1), of('b', at), of('b', at + 1)],
      ] as const
      await orders.closeUnbooked([closedFirst, closedAfter], 'lost')
      await orders.confirm([liveAfter, liveFirst])
      await shop.sale.rebuild(ref.activityId, AUDIT, rebuild)
      await expectSound(shop, 10)
      expect(await shop.buy('a')).toEqual({ status: 'already-bought', orderNo: liveAfter.orderNo })
      expect(await shop.buy('b')).toEqual({ status: 'already-bought', orderNo: liveFirst.orderNo })
    })

    test('U1: a top-up that is in the database is in Redis, and its repetition adds nothing', async () => {
      const shop = await halfSold(backend())
      const { ref, sale } = shop
      await sale.topUp(ref, 7, 'op-1', AUDIT)
      await shop.orders.topUp(ref, -3, 'op-2', AUDIT)
      await backend().redis.flushall()
      await sale.rebuild(ref.activityId, AUDIT, rebuild)
      await sale.topUp(ref, 7, 'op-1', AUDIT)
      await sale.topUp(ref, -3, 'op-2', AUDIT)
      await expectSound(shop, 104)
      await sale.topUp(ref, 1, 'op-3', AUDIT)
      await expectSound(shop, 105)
    })

    test('revoked tokens stay revoked, and a paid order whose money went back stays sold', async () => {
      const shop = await halfSold(backend())
      const [first] = await shop
        .knex('seckill_order')
        .where({ activity_id: shop.ref.activityId, status: 'PAID' })
        .select('order_no')
      await shop
        .knex('seckill_order')
        .where(first)
        .update({ status: 'CLOSED', reason: 'refunded', live_key: null })
      await shop.sale.revokeTokens(shop.ref.activityId, AUDIT)
      await backend().redis.flushall()
      expect(await shop.sale.rebuild(shop.ref.activityId, AUDIT, rebuild)).toMatchObject({
        status: 'rebuilt',
      })
      expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({ available: 50, sold: 40 })
      const sale = `seckill:sale:{${shop.ref.activityId}}`
      expect(await backend().redis.hget(sale, 'tokenEpoch')).toBe('2')
    })
  })

  describe('late messages', () => {
    test('E-noled: numbers that were on their way are adopted while units last, else closed; all is conserved', async () => {
      const shop = await openShop(backend(), { units: 10 })
      await bought(shop, 6)
      for (let i = 6; i < 10; i++)
        expect(await shop.buy(`u${i}`)).toMatchObject({ status: 'queued' })
      await backend().redis.flushall()
      // Nobody drains the queue: the four are forgotten, and their units are sold again.
      expect(
        await shop.sale.rebuild(shop.ref.activityId, AUDIT, { waitMs: 0, reopen: true }),
      ).toMatchObject({ status: 'rebuilt', state: 'open', orders: 6 })
      expect((await shop.sale.stock.numbers(shop.ref)).available).toBe(4)
      for (const user of ['n1', 'n2', 'n3'])
        expect(await shop.buy(user)).toMatchObject({ status: 'queued' })
      await settled(shop, 10)
      expect(await shop.orders.numbers(shop.ref)).toMatchObject({ available: 0, live: 10 })
      const closed = await shop
        .knex('seckill_order')
        .where({ activity_id: shop.ref.activityId, status: 'CLOSED' })
        .select('reason')
      expect(closed.map((row) => row.reason)).toEqual(['sold-out', 'sold-out', 'sold-out'])
      expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({ available: 0, over: 0 })
    })

    test('a bounded wait for the queue spares them', async () => {
      const shop = await openShop(backend(), { units: 10 })
      const worker = shop.sale.worker({ ordersPerSecond: 10_000, database: null })
      for (let i = 0; i < 10; i++) await shop.buy(`u${i}`)
      await backend().redis.flushall()
      await worker.start()
      expect(await shop.sale.rebuild(shop.ref.activityId, AUDIT, rebuild)).toMatchObject({
        status: 'rebuilt',
      })
      await worker.stop()
      expect(await shop.orders.numbers(shop.ref)).toMatchObject({ live: 10 })
      await expectSound(shop, 10)
    })

    test('W0: a number nobody knows any more is closed past the grace time', async () => {
      const shop = await openShop(backend(), { sale: { graceMs: 0 } })
      const won = await shop.buy('u1')
      if (won.status !== 'queued') throw new Error(won.status)
      await backend().redis.flushall()
      await shop.sale.rebuild(shop.ref.activityId, AUDIT, { waitMs: 0 })
      const asked = { ...shop.ref, userId: 'u1', orderNo: won.orderNo }
      expect(await shop.sale.result(asked)).toEqual({
        ...{ status: 'closed', orderNo: won.orderNo, reason: 'never-appeared' },
      })
      const worker = shop.sale.worker({ ordersPerSecond: 100, database: null })
      await worker.start()
      await decided(shop)
      await worker.stop()
      await expectSound(shop, 10)
    })
  })

  describe('Redis gone back in time', () => {
    test('S10: what it had forgotten is there again, and the sale goes on', async () => {
      const shop = await openShop(backend(), { units: 10 })
      await bought(shop, 3)
      const restore = await dumped(backend().redis, shop)
      for (let i = 3; i < 8; i++) await shop.buy(`u${i}`)
      const worker = shop.sale.worker({ ordersPerSecond: 10_000, database: null })
      await worker.start()
      await decided(shop)
      await worker.stop()
      await restore()
      expect(await shop.buy('n')).toEqual({ status: 'rewound' })
      expect(await shop.sale.rebuild(shop.ref.activityId, AUDIT, rebuild)).toMatchObject({
        ...{ status: 'rebuilt', state: 'open', orders: 8 },
      })
      await expectSound(shop, 10)
      expect(await shop.buy('u7')).toMatchObject({ status: 'already-bought' })
      expect(await shop.buy('n')).toMatchObject({ status: 'queued' })
      // Another process, which remembers the old epoch, is content with the new one.
      await settled(shop, 10)
    })
  })

  test('C03: a sale with orders is in use after a rebuild too: a version with other SKUs does not replace it', async () => {
    const shop = await halfSold(backend())
    const { activityId } = shop.ref
    await backend().redis.flushall()
    expect(await shop.sale.rebuild(activityId, AUDIT)).toMatchObject({ status: 'rebuilt' })
    const skus = [{ skuId: 'other', units: 9, priceMinor: 100, currency: 'CNY' }]
    await shop.activities.save({ ...shop.activity, version: '2', skus })
    expect(await shop.sale.warmUp(activityId, AUDIT)).toEqual({ status: 'version-in-use' })
    expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({ frozen: 10, sold: 40 })
  })

  describe('who may open', () => {
    test('a rebuild leaves the sale stopped unless it is asked to open it', async () => {
      const shop = await halfSold(backend())
      const { activityId } = shop.ref
      await backend().redis.flushall()
      expect(await shop.sale.rebuild(activityId, AUDIT)).toMatchObject({ state: 'stopped' })
      expect(await shop.options.control.read(activityId)).toMatchObject({ state: 'stopped' })
      expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({ state: 'stopped' })
      // It was a person's stop: a second rebuild does not open it either.
      expect(await shop.sale.rebuild(activityId, AUDIT, rebuild)).toMatchObject({
        state: 'stopped',
      })
    })

    test('a sale that was stopped before stays stopped, and who stopped it stays on record', async () => {
      const shop = await halfSold(backend())
      const { activityId } = shop.ref
      await shop.sale.control(activityId, 'stopped', { actor: 'ann', reason: 'wrong price' })
      expect(await shop.sale.rebuild(activityId, AUDIT, rebuild)).toMatchObject({
        state: 'stopped',
      })
      expect(await shop.options.control.lastAct(activityId)).toMatchObject({ actor: 'ann' })
    })

    test('who stops it while it is rebuilt is heard', async () => {
      const shop = await halfSold(backend())
      const { activityId } = shop.ref
      const orders = new Proxy(shop.orders, {
        get: (target, name) => {
          const value = Reflect.get(target, name)
          if (name !== 'prepare') return typeof value === 'function' ? value.bind(target) : value
          return async (...args: Parameters<typeof target.prepare>) => {
            await shop.sale.control(activityId, 'stopped', { actor: 'ann', reason: 'wrong price' })
            return target.prepare(...args)
          }
        },
      })
      const other = shop.restarted({ orders })
      expect(await other.rebuild(activityId, AUDIT, rebuild)).toMatchObject({ state: 'stopped' })
      expect(await shop.options.control.lastAct(activityId)).toMatchObject({ actor: 'ann' })
    })

    test('I13 who stops it between its opening in the database and in Redis is not undone', async () => {
      const shop = await halfSold(backend())
      const { activityId } = shop.ref
      const { control } = shop.options
      const other = shop.restarted({
        control: new Proxy(control, {
          get: (target, name) => {
            const value = Reflect.get(target, name)
            if (name !== 'setIf') return typeof value === 'function' ? value.bind(target) : value
            return async (...args: Parameters<typeof target.setIf>) => {
              const revision = await target.setIf(...args)
              if (args[1] === 'open') {
                const by = { actor: 'ann', reason: 'wrong price' }
                expect(await shop.sale.control(activityId, 'stopped', by)).toEqual({
                  acknowledged: 1,
                  of: 1,
                })
              }
              return revision
            }
          },
        }),
      })
      await other.rebuild(activityId, AUDIT, rebuild)
      expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({ state: 'stopped' })
    })

    test('I13 an opening that was on its way since before the rebuild does not open the new keys', async () => {
      const shop = await halfSold(backend())
      const { activityId } = shop.ref
      const { revision } = await shop.options.control.read(activityId)
      await shop.sale.control(activityId, 'stopped', { actor: 'ann', reason: 'wrong price' })
      for (const loss of [async () => {}, () => backend().redis.flushall()]) {
        await loss()
        expect(await shop.sale.rebuild(activityId, AUDIT)).toMatchObject({ status: 'rebuilt' })
        expect(await shop.sale.stock.control(activityId, 'open', revision)).toEqual({
          acknowledged: 0,
          of: 1,
        })
        expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({ state: 'stopped' })
      }
    })
  })

  describe('two at once', () => {
    test('one of them rebuilds, the other is overtaken or rebuilds after it; the sale is whole and open', async () => {
      for (let round = 0; round < 3; round++) {
        const shop = await halfSold(backend())
        const { activityId } = shop.ref
        await backend().redis.flushall()
        const others = [shop.sale, shop.restarted(), shop.restarted()]
        const done = await Promise.all(others.map((s) => s.rebuild(activityId, AUDIT, rebuild)))
        expect(done.map((d) => d.status)).toContain('rebuilt')
        for (const d of done) expect(['rebuilt', 'overtaken']).toContain(d.status)
        await expectSound(shop, 100)
        expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({ state: 'open' })
        expect(await rush(shop, 50)).toEqual({ queued: 50, 'already-bought': 250, 'sold-out': 200 })
        await settled(shop, 100)
      }
    })

    test('a rebuild that was asleep while another finished and the sale went on changes nothing', async () => {
      const shop = await halfSold(backend())
      const { activityId } = shop.ref
      await backend().redis.flushall()
      let wake: () => void = () => {}
      const asleep = new Promise<void>((resolve) => {
        wake = resolve
      })
      let reached: () => void = () => {}
      const there = new Promise<void>((resolve) => {
        reached = resolve
      })
      const slow = {
        topUps: shop.orders.topUps.bind(shop.orders),
        async *snapshot(ref: typeof shop.ref) {
          reached()
          await asleep
          yield* shop.orders.snapshot(ref)
        },
      }
      const late = shop.sale.stock.rebuild(shop.activity, slow, { tokenEpoch: 1 })
      await there
      await shop.sale.rebuild(activityId, AUDIT, rebuild)
      expect(await shop.buy('n1')).toMatchObject({ status: 'queued' })
      const before = await shop.sale.stock.numbers(shop.ref)
      wake()
      expect(await late).toEqual({ status: 'overtaken' })
      expect(await shop.sale.stock.numbers(shop.ref)).toEqual(before)
      await settled(shop, 100)
    })
  })

  test('what was collected and got lost is not put in place', async () => {
    const shop = await halfSold(backend())
    const { redis } = backend()
    const before = await shop.sale.stock.numbers(shop.ref)
    const orders = {
      topUps: shop.orders.topUps.bind(shop.orders),
      async *snapshot(ref: typeof shop.ref) {
        yield* shop.orders.snapshot(ref)
        const [key] = await redis.keys(`seckill:rebuild:{${ref.activityId}}:*:stock:*`)
        await redis.del(key as string)
      },
    }
    await shop.sale.stock.control(shop.ref.activityId, 'stopped')
    expect(await shop.sale.stock.rebuild(shop.activity, orders, { tokenEpoch: 1 })).toEqual({
      status: 'lost',
    })
    expect(await shop.sale.stock.numbers(shop.ref)).toEqual({ ...before, state: 'stopped' })
    const left = await redis.keys(`seckill:rebuild:{${shop.ref.activityId}}:*`)
    expect(left).not.toEqual([])
    for (const key of left) expect(await redis.pttl(key)).toBeGreaterThan(0)
  })

  test('an activity whose keys would have expired is not rebuilt', async () => {
    const day = 86_400_000
    const now = Date.now()
    const shop = await openShop(backend(), {
      activity: { opensAt: now - 2 * day, endsAt: now - day },
      warm: false,
    })
    expect(await shop.sale.rebuild(shop.ref.activityId, AUDIT)).toEqual({ status: 'expired' })
    expect(await keysOf(backend().redis, shop)).toEqual([])
  })

  test('C03 (d): stock half written is unusable, not sold out', async () => {
    const shop = await halfSold(backend())
    const key = `seckill:stock:{${shop.ref.activityId}}:${SKU}`
    await backend().redis.hdel(key, 'available', 'frozen')
    await expect(shop.buy('n')).rejects.toMatchObject({ code: 'CORRUPT' })
    expect((await shop.sale.stock.standing(shop.activity)).status).toBe('corrupt')
    expect(await shop.sale.rebuild(shop.ref.activityId, AUDIT, rebuild)).toMatchObject({
      state: 'open',
    })
    await expectSound(shop, 100)
  })
}
