import { formatReport, TriangleReconciler } from 'flash-sale-kit'
import { describe, expect, test } from 'vitest'
import { PLANTS, REFUNDED } from '../reconcile/plants.js'
import {
  confirmed,
  deducted,
  fresh,
  hset,
  order,
  paid,
  pay,
  paymentsOf,
  reconcilerOf,
  release,
  reservation,
  type Told,
  tell,
} from '../reconcile/world.js'
import { type Backend, openShop, type Shop } from './shop.js'

const tasksOf = async (shop: Shop): Promise<number> => {
  const [row] = await shop
    .knex('seckill_manual_task')
    .where('ref', 'like', `${shop.ref.activityId}%`)
    .count({ n: '*' })
  return Number(row?.n)
}

export function reconcileSuite(backend: () => Backend): void {
  describe('TriangleReconciler', () => {
    test('R1: an untouched sale has no finding', async () => {
      const shop = await openShop(backend())
      const report = await reconcilerOf(shop).inspect(shop.ref.activityId)
      expect(report).toMatchObject({ findings: [], counts: {}, difference: 0, rate: 0 })
      expect(report).toMatchObject({ alert: false, truncated: false })
      expect(report.triangles[0]).toMatchObject({ physical: 10, onTheWay: 0, sumsCompared: true })
    })

    test.each(PLANTS.map((p) => [p.kind, p.how ?? '', p.repair, p] as const))(
      'R2 R3: finds %s %s, repairs it by %s once, and a second run finds nothing else',
      async (kind, _, repair, { plant, money }) => {
        const shop = await openShop(backend())
        // A neighbour in good order must be left alone.
        await confirmed(shop, 'good')
        await plant(shop, 'u1')
        const told: Told[] = []
        const reconciler = reconcilerOf(shop, {
          told,
          ...(money ? { payments: paymentsOf(shop) } : {}),
        })
        const { activityId } = shop.ref
        const report = await reconciler.inspect(activityId)
        expect(report.findings.map((f) => [f.kind, f.repair])).toEqual([[kind, repair]])
        expect(report).toMatchObject({ counts: { [kind]: 1 }, alert: true })
        expect(told.map((t) => t.code)).toEqual(['difference'])
        expect(await tasksOf(shop)).toBe(0)

        const statuses = async () => (await reconciler.repair(report.findings)).map((r) => r.status)
        const isManual = repair === 'manual'
        expect(await statuses()).toEqual([isManual ? 'manual' : 'repaired'])
        expect(await tasksOf(shop)).toBe(isManual ? 1 : 0)
        const after = await reconciler.inspect(activityId)
        expect(after.findings.map((f) => f.id)).toEqual(
          isManual ? report.findings.map((f) => f.id) : [],
        )
        expect(await statuses()).toEqual([isManual ? 'manual' : 'gone'])
        expect(await tasksOf(shop)).toBe(isManual ? 1 : 0)
        if (!isManual) {
          const [t] = after.triangles
          expect(t?.redis.available).toBe(Number(t?.database.available) - Number(t?.onTheWay))
        }
        expect(await shop.orders.findByBuyer(shop.ref, 'good')).toMatchObject({
          status: 'confirmed',
        })
        expect(await shop.sale.stock.reservation(shop.ref, 'good')).toMatchObject({
          state: 'confirmed',
        })
      },
    )

    test('R2: what is refunded is paid in Redis, and equal', async () => {
      const shop = await openShop(backend())
      const r = await paid(shop, 'u1')
      await order(shop, r).update(REFUNDED)
      paymentsOf(shop).add(r, { status: 'refunded', refundingMinor: 100, refundedMinor: 100 })
      const reconciler = reconcilerOf(shop, { payments: paymentsOf(shop) })
      expect((await reconciler.inspect(shop.ref.activityId)).findings).toEqual([])
    })

    test('R2: a refund that waits, and money without an order, are findings after the grace time', async () => {
      const shop = await openShop(backend())
      const r = await paid(shop, 'u1')
      paymentsOf(shop).add(r, { refundingMinor: 40 })
      const none = reservation(shop, 'u2')
      paymentsOf(shop).add(none, { status: 'received', paidOrderNo: null })
      const patient = reconcilerOf(shop, { payments: paymentsOf(shop) })
      expect((await patient.inspect(shop.ref.activityId)).findings).toEqual([])
      const strict = reconcilerOf(shop, { payments: paymentsOf(shop), graceMs: 0 })
      const kinds = (await strict.inspect(shop.ref.activityId)).findings.map((f) => f.kind)
      expect(kinds.sort()).toEqual(['payment-without-order', 'refund-stuck'])
    })

    test('R3: two runs report the same', async () => {
      const shop = await openShop(backend())
      await deducted(shop, 'u1')
      await shop.orders.confirm([reservation(shop, 'u2')])
      const ids = async () =>
        (await reconcilerOf(shop).inspect(shop.ref.activityId)).findings.map((f) => f.id).sort()
      const first = await ids()
      expect(first).toHaveLength(2)
      expect(await ids()).toEqual(first)
    })

    test('R5: what is on its way is no loss', async () => {
      const shop = await openShop(backend())
      for (const user of ['u1', 'u2', 'u3']) await fresh(shop, user)
      await shop.orders.confirm([await fresh(shop, 'u4')])
      const report = await reconcilerOf(shop).inspect(shop.ref.activityId)
      expect(report).toMatchObject({ findings: [], difference: 0, alert: false })
      expect(report.triangles[0]?.onTheWay).toBe(3)
    })

    test('R5: a number decided between the two readings is none that the database misses', async () => {
      const shop = await openShop(backend())
      const r = await deducted(shop, 'u1')
      const decide = async () => {
        await shop.orders.confirm([r])
        await tell(shop, 'confirmed', r)
      }
      const orders = once(shop.orders, 'find', decide)
      const report = await reconcilerOf(shop, { orders }).inspect(shop.ref.activityId)
      expect(report.findings).toEqual([])
    })

    test('R5: what Redis hears of a moment after the commit is no difference', async () => {
      const shop = await openShop(backend())
      const [closed, paidNow] = [await confirmed(shop, 'u1'), await confirmed(shop, 'u2')]
      await shop.orders.closeUnpaid([closed.orderNo], 'unpaid')
      await pay(shop, paidNow)
      const hear = async () => {
        await release(shop, closed)
        await tell(shop, 'paid', paidNow)
      }
      const stock = once(shop.sale.stock, 'reservations', hear)
      const report = await reconcilerOf(shop, { stock }).inspect(shop.ref.activityId)
      expect(report).toMatchObject({ findings: [], difference: 0, counts: {} })
    })

    test('R2: one number in the records of two buyers is found, whichever comes first', async () => {
      const shop = await openShop(backend())
      const first = await confirmed(shop, 'u1')
      await hset(shop, 'done', { u2: `c|${first.orderNo}|1|1|` })
      const second = reservation(shop, 'u3')
      await hset(shop, 'done', { u4: `c|${second.orderNo}|1|1|` })
      await shop.orders.confirm([second])
      await tell(shop, 'confirmed', second)
      const { findings } = await reconcilerOf(shop).inspect(shop.ref.activityId)
      expect(findings.map((f) => [f.kind, f.userId]).sort()).toEqual([
        ['owner-differs', 'u2'],
        ['owner-differs', 'u4'],
      ])
    })

    test('R4: alerts by the rules of the host, always at what has no units', async () => {
      const shop = await openShop(backend(), { units: 10_000 })
      await deducted(shop, 'u1')
      const alertOf = async (o: object) =>
        (await reconcilerOf(shop, o).inspect(shop.ref.activityId)).alert
      expect(await alertOf({})).toBe(true)
      expect(await alertOf({ alertUnits: 1 })).toBe(false)
      expect(await alertOf({ alertUnits: 1, alertRate: 0.00005 })).toBe(true)
      await hset(shop, 'done', { u9: 'nonsense' })
      expect(await alertOf({ alertUnits: 1 })).toBe(true)
    })

    test('R4: a record that cannot be read is a finding, not the end of the run', async () => {
      const shop = await openShop(backend())
      await deducted(shop, 'u1')
      const r = await confirmed(shop, 'u9')
      await hset(shop, 'done', { u9: 'nonsense', [`é${'x'.repeat(10_000)}`]: '1' })
      const reconciler = reconcilerOf(shop)
      const { findings } = await reconciler.inspect(shop.ref.activityId)
      const kinds = findings.map((f) => f.kind).sort()
      expect(kinds).toEqual(['no-order', 'unreadable-record', 'unreadable-record'])
      expect(await reconciler.repair(findings)).toHaveLength(3)
      expect(await shop.orders.find([r.orderNo])).toMatchObject([{ status: 'confirmed' }])
    })

    test('R2: a record that no reservation can be made of goes to a person, and holds up no other', async () => {
      const shop = await openShop(backend())
      await deducted(shop, 'u1')
      await deducted(shop, 'u2')
      await hset(shop, 'done', { u2: 'h|by-hand|0|5|' })
      const reconciler = reconcilerOf(shop)
      const { findings } = await reconciler.inspect(shop.ref.activityId)
      const ofNumbers = findings.filter((f) => f.orderNo !== null)
      const repaired = await reconciler.repair(ofNumbers)
      const statuses = ofNumbers.map((f, i) => [f.userId, repaired[i]?.status])
      expect(Object.fromEntries(statuses)).toEqual({ u1: 'repaired', u2: 'manual' })
    })

    test('C04: a unit that Redis may still count is not taken twice', async () => {
      const shop = await openShop(backend())
      await confirmed(shop, 'u1')
      await shop.redis.eval(
        `return redis.call('HDEL', KEYS[1], 'u1')`,
        1,
        `seckill:done:{${shop.ref.activityId}}:${shop.ref.skuId}`,
      )
      const reconciler = reconcilerOf(shop)
      const { findings } = await reconciler.inspect(shop.ref.activityId)
      expect(findings.map((f) => [f.kind, f.repair]).sort()).toEqual([
        ['frozen-differs', 'manual'],
        ['no-deduction', 'manual'],
      ])
      await reconciler.repair(findings)
      expect((await shop.sale.stock.numbers(shop.ref)).available).toBe(9)
    })

    test('the report prints as a table', async () => {
      const shop = await openShop(backend())
      await deducted(shop, 'u1')
      const text = formatReport(await reconcilerOf(shop).inspect(shop.ref.activityId))
      expect(text).toMatch(/physical stock S +10\n/)
      expect(text).toMatch(/Redis pending +1\n/)
      expect(text).toMatch(/^no-order: 1$/m)
      expect(text).toMatch(
        /^no-order s1 \w+ 1 units: Redis: held; database: no row; repair: close$/m,
      )
    })

    test('bad input is a typed error', async () => {
      const shop = await openShop(backend())
      const r = reconcilerOf(shop)
      await expect(r.inspect('no-such')).rejects.toMatchObject({ code: 'BAD_INPUT' })
      await expect(r.inspect('{')).rejects.toMatchObject({ code: 'BAD_INPUT' })
      for (const bad of ['x', [null], [{}], [{ ...(await one(shop)), repair: 'DROP' }]])
        await expect(r.repair(bad as never)).rejects.toMatchObject({ code: 'BAD_INPUT' })
      expect(() => new TriangleReconciler({} as never)).toThrow(/option stock/)
      for (const [name, value] of [
        ['graceMs', 1.5],
        ['settleMs', -1],
        ['alertUnits', 2n],
        ['alertRate', Number.NaN],
        ['alertRate', '0.1'],
        ['log', 7],
        ['onProgress', 'x'],
      ] as const)
        expect(() => reconcilerOf(shop, { [name]: value } as never)).toThrow(name)
    })
  })
}

/** Does something else right after the first answer of a method. */
function once<T extends object>(target: T, method: keyof T, then: () => Promise<void>): T {
  let done = false
  return new Proxy(target, {
    get(_, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      if (name !== method) return value.bind(target)
      return async (...args: unknown[]) => {
        const answer: unknown = await value.apply(target, args)
        if (!done) {
          done = true
          await then()
        }
        return answer
      }
    },
  })
}

async function one(shop: Shop) {
  await deducted(shop, 'u1')
  const { findings } = await reconcilerOf(shop).inspect(shop.ref.activityId)
  return findings[0]
}
