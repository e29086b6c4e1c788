import { formatReport, newOrderNo, type Reservation, TriangleReconciler } from 'flash-sale-kit'
import { describe, expect, test } from 'vitest'
import { AUDIT, type Backend, openShop, type Shop, SKU } from './shop.js'

const OLD = 3_600_000

function reservation(shop: Shop, userId: string, o: Partial<Reservation> = {}): Reservation {
  const at = Date.now() - OLD
  return {
    ...shop.ref,
    orderNo: newOrderNo(at),
    userId,
    quantity: 1,
    bucket: 0,
    version: '1',
    reservedAt: at,
    ...o,
  }
}

/** Takes a unit as if an hour ago; the ledger's own time of it is what the reconciler sees. */
async function deducted(shop: Shop, userId: string): Promise<Reservation> {
  await shop.buy(userId)
  const record = await shop.sale.stock.reservation(shop.ref, userId)
  if (typeof record === 'string') throw new Error(record)
  return record
}

function reconciler(shop: Shop, graceMs = 0) {
  const { orders, activities, sale } = shop
  return new TriangleReconciler({ stock: sale.stock, orders, activities, graceMs })
}

type Plant = (shop: Shop) => Promise<unknown>
const tell = (shop: Shop, to: 'confirmed' | 'paid', r: Reservation) =>
  shop.sale.stock.move([{ to, reservation: r }])
const release = (shop: Shop, r: Reservation) =>
  shop.sale.stock.move([{ to: 'released', reservation: r, reason: 'closed' }])
const pay = (shop: Shop, r: Reservation) =>
  shop.knex('seckill_order').where('order_no', r.orderNo).update({ status: 'PAID' })

const PLANTS: readonly (readonly [kind: string, repair: string, Plant])[] = [
  ['no-order', 'close', (shop) => deducted(shop, 'u1')],
  ['no-deduction', 'deduct', (shop) => shop.orders.confirm([reservation(shop, 'u1')])],
  ['confirm-owed', 'confirm', async (shop) => shop.orders.confirm([await deducted(shop, 'u1')])],
  [
    'release-owed',
    'release',
    async (shop) => shop.orders.closeUnbooked([await deducted(shop, 'u1')], 'lost'),
  ],
  ['no-closing', 'close', async (shop) => release(shop, await deducted(shop, 'u1'))],
  [
    'excess-order',
    'close-order',
    async (shop) => {
      const r = await deducted(shop, 'u1')
      await shop.orders.confirm([r])
      await release(shop, r)
    },
  ],
  [
    'paid-but-returned',
    'manual',
    async (shop) => {
      const r = await deducted(shop, 'u1')
      await shop.orders.confirm([r])
      await pay(shop, r)
      await release(shop, r)
    },
  ],
  ['order-missing', 'manual', async (shop) => tell(shop, 'confirmed', await deducted(shop, 'u1'))],
  [
    'paid-differs',
    'manual',
    async (shop) => {
      const r = await deducted(shop, 'u1')
      await shop.orders.confirm([r])
      await tell(shop, 'paid', r)
    },
  ],
  ['numbers-differ', 'manual', (shop) => shop.orders.topUp(shop.ref, 3, newOrderNo(), AUDIT)],
]

export function reconcileSuite(backend: () => Backend): void {
  describe('TriangleReconciler', () => {
    test('R1: an untouched sale has no finding', async () => {
      const shop = await openShop(backend())
      const report = await reconciler(shop).inspect(shop.ref.activityId)
      expect(report).toMatchObject({ findings: [], difference: 0, rate: 0, alert: false })
      expect(report.triangles[0]).toMatchObject({ physical: 10, onTheWay: 0 })
    })

    test.each(PLANTS)(
      'R2: finds %s, repairs it by %s, and a second run finds nothing',
      async (kind, repair, plant) => {
        const shop = await openShop(backend())
        // A neighbour in good order must be left alone.
        const good = await deducted(shop, 'good')
        await shop.orders.confirm([good])
        await tell(shop, 'confirmed', good)
        await plant(shop)
        const report = await reconciler(shop).inspect(shop.ref.activityId)
        expect(report.findings.map((f) => [f.kind, f.repair])).toEqual([[kind, repair]])
        expect(report.alert).toBe(true)
        const repaired = await reconciler(shop).repair(report.findings)
        expect(repaired.map((r) => r.status)).toEqual([repair === 'manual' ? 'manual' : 'repaired'])
        const after = await reconciler(shop).inspect(shop.ref.activityId)
        if (repair === 'manual')
          expect(after.findings).toEqual(
            report.findings.map((f) => expect.objectContaining({ id: f.id })),
          )
        else {
          expect(after.findings).toEqual([])
          const [t] = after.triangles
          expect(t?.redis.available).toBe(t?.database.available)
          expect((await reconciler(shop).repair(report.findings)).map((r) => r.status)).toEqual([
            'gone',
          ])
        }
        expect(await shop.orders.findByBuyer(shop.ref, 'good')).toMatchObject({
          status: 'confirmed',
        })
      },
    )

    test('R3: two runs report the same', async () => {
      const shop = await openShop(backend())
      await deducted(shop, 'u1')
      await shop.orders.confirm([reservation(shop, 'u2')])
      const ids = async () =>
        (await reconciler(shop).inspect(shop.ref.activityId)).findings.map((f) => f.id).sort()
      const first = await ids()
      expect(first).toHaveLength(2)
      expect(await ids()).toEqual(first)
    })

    test('R5: what is on its way is no loss', async () => {
      const shop = await openShop(backend())
      for (const user of ['u1', 'u2', 'u3']) await deducted(shop, user)
      const booked = await deducted(shop, 'u4')
      await shop.orders.confirm([booked])
      const report = await reconciler(shop, 600_000).inspect(shop.ref.activityId)
      expect(report).toMatchObject({ findings: [], difference: 0, alert: false })
      expect(report.triangles[0]?.onTheWay).toBe(3)
    })

    test('R4: a record that cannot be read is a finding, not the end of the run', async () => {
      const shop = await openShop(backend())
      const lua = `return redis.call('HSET', KEYS[1], 'u9', 'nonsense')`
      await shop.redis.eval(lua, 1, `seckill:done:{${shop.ref.activityId}}:${SKU}`)
      await deducted(shop, 'u1')
      const report = await reconciler(shop).inspect(shop.ref.activityId)
      expect(report.findings.map((f) => f.kind).sort()).toEqual(['no-order', 'unreadable-record'])
    })

    test('the report prints as a table', async () => {
      const shop = await openShop(backend())
      await deducted(shop, 'u1')
      const text = formatReport(await reconciler(shop).inspect(shop.ref.activityId))
      expect(text).toMatch(/physical stock S +10\n/)
      expect(text).toMatch(/Redis pending +1\n/)
      expect(text).toMatch(
        /^no-order s1 \w+ 1 units: Redis: held; database: no row; repair: close$/m,
      )
    })

    test('bad input is a typed error', async () => {
      const shop = await openShop(backend())
      const r = reconciler(shop)
      await expect(r.inspect('no-such')).rejects.toMatchObject({ code: 'BAD_INPUT' })
      await expect(r.inspect('{')).rejects.toMatchObject({ code: 'BAD_INPUT' })
      await expect(r.repair('x' as never)).rejects.toMatchObject({ code: 'BAD_INPUT' })
      expect(() => new TriangleReconciler({} as never)).toThrow(/option stock/)
    })
  })
}
