import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { AUDIT, inParallel, useKit } from './kit.js'

export function stockSuite(kind: DatabaseKind): void {
  describe(`prepare and topUp on ${kind}`, () => {
    const kit = useKit(kind)

    it('C03: eight prepare at once and later ones make one row for each SKU, and never reset it', async () => {
      const sale = await kit.sale({ skus: 3, units: 50, prepared: false })
      const fresh = [1, 2, 3].map((n) => ({
        ...sale.ref(n),
        total: 50,
        available: 50,
        live: 0,
        topUps: [],
      }))
      const all = await inParallel(8, [1, 2, 3, 4, 5, 6, 7, 8], () =>
        kit.book().prepare(sale.activity),
      )
      for (const numbers of all) expect(numbers).toEqual(fresh)
      await kit.book().confirm(sale.reservations(20))
      expect(await kit.book().prepare(sale.activity)).toEqual([
        { ...sale.ref(1), total: 50, available: 30, live: 20, topUps: [] },
        ...fresh.slice(1),
      ])
    })

    it('C03: a version that never sold is replaced; one that sold is not, and that is an error', async () => {
      const sale = await kit.sale({ units: 50 })
      const [sku] = sale.activity.skus
      const v2 = {
        ...sale.activity,
        version: 'v2',
        skus: [{ skuId: 's1', currency: 'CNY', ...sku, units: 70, priceMinor: 1200 }],
      }
      expect(await kit.book().prepare(v2)).toMatchObject([{ total: 70, available: 70 }])
      const [order] = sale.reservations(1, { version: 'v2' })
      await kit.book().confirm(order ? [order] : [])
      expect(await kit.book().find([order?.orderNo ?? ''])).toMatchObject([{ amountMinor: 1200 }])
      await expect(kit.book().prepare(sale.activity)).rejects.toMatchObject({ code: 'BAD_INPUT' })
      expect(await kit.book().prepare(v2)).toMatchObject([{ total: 70, available: 69, live: 1 }])
    })

    it('C03: other terms under the same version are noticed, not silently ignored', async () => {
      const sale = await kit.sale()
      const [sku] = sale.activity.skus
      const cheaper = [{ skuId: 's1', units: 100, currency: 'CNY', ...sku, priceMinor: 1 }]
      for (const change of [{ skus: cheaper }, { payWithinMs: 60_000 }, { maxPerOrder: 3 }])
        await expect(kit.book().prepare({ ...sale.activity, ...change })).rejects.toMatchObject({
          code: 'BAD_INPUT',
        })
      const more = [{ skuId: 's1', priceMinor: 990, currency: 'CNY', ...sku, units: 500 }]
      expect(await kit.book().prepare({ ...sale.activity, skus: more })).toMatchObject([
        { total: 100 },
      ])
    })

    it('S7: tops up once per operation id, also eight times at once, with one audit row', async () => {
      const sale = await kit.sale({ units: 10 })
      await kit.book().confirm(sale.reservations(4))
      const all = await inParallel(8, [1, 2, 3, 4, 5, 6, 7, 8], () =>
        kit.book().topUp(sale.ref(), 5, `${sale.activityId}-op`, AUDIT),
      )
      for (const numbers of all)
        expect(numbers).toEqual({ ...sale.ref(), total: 15, available: 11, live: 4 })
      const audits = await kit.knex('seckill_audit').where({ activity_id: sale.activityId })
      expect(audits).toHaveLength(1)
      expect(audits[0]).toMatchObject({ act: 'top-up', actor: 'op', reason: 'a test' })
      expect(JSON.parse(audits[0].after_value)).toMatchObject({ total: 15, units: 5 })
    })

    it('S7: withdraws what is available and not one unit more', async () => {
      const sale = await kit.sale({ units: 10 })
      await kit.book().confirm(sale.reservations(4))
      const withdraw = (units: number, n: number) =>
        kit.book().topUp(sale.ref(), units, `${sale.activityId}-${n}`, AUDIT)
      await expect(withdraw(-7, 1)).rejects.toMatchObject({ code: 'BAD_INPUT' })
      expect(await withdraw(-6, 2)).toMatchObject({ total: 4, available: 0, live: 4 })
      await expect(withdraw(-1, 3)).rejects.toThrow('0 are available')
      // A refusal leaves no trace of its id.
      expect(await withdraw(2, 1)).toMatchObject({ total: 6, available: 2 })
      expect(await kit.count('seckill_audit', { activity_id: sale.activityId })).toBe(2)
    })

    it('S7: refuses an operation id used for something else, an unknown SKU, and more than can be', async () => {
      const sale = await kit.sale({ skus: 2 })
      const id = `${sale.activityId}-op`
      await kit.book().topUp(sale.ref(), 5, id, AUDIT)
      for (const attempt of [
        () => kit.book().topUp(sale.ref(), 6, id, AUDIT),
        () => kit.book().topUp(sale.ref(2), 5, id, AUDIT),
        () => kit.book().topUp({ activityId: sale.activityId, skuId: 'x' }, 5, `${id}2`, AUDIT),
        () => kit.book().topUp(sale.ref(), 1_000_000_000, `${id}3`, AUDIT),
      ])
        await expect(attempt()).rejects.toMatchObject({ code: 'BAD_INPUT' })
      expect(await kit.book().numbers(sale.ref())).toMatchObject({ total: 105 })
      expect(await kit.count('seckill_top_up', { activity_id: sale.activityId })).toBe(1)
    })

    it('S7: confirms and withdrawals at once never leave a stock row below zero', async () => {
      const sale = await kit.sale({ units: 60 })
      const withdrawn = inParallel(
        4,
        Array.from({ length: 20 }, (_, i) => i),
        (i) =>
          kit
            .book()
            .topUp(sale.ref(), -2, `${sale.activityId}-w${i}`, AUDIT)
            .then(
              () => 2,
              () => 0,
            ),
      )
      const sold = inParallel(
        8,
        Array.from({ length: 20 }, (_, i) => i),
        () => kit.book().confirm(sale.reservations(3)),
      )
      const [gone, verdicts] = await Promise.all([withdrawn, sold])
      const live = verdicts.flat().filter((v) => v.status === 'confirmed').length
      const total = 60 - gone.reduce((sum: number, units) => sum + units, 0)
      expect(await kit.book().numbers(sale.ref())).toEqual({
        ...sale.ref(),
        total,
        live,
        available: total - live,
      })
      expect(live).toBe(total)
    })

    it('numbers: null for an SKU nobody prepared', async () => {
      expect(await kit.book().numbers({ activityId: 'nothing', skuId: 's1' })).toBeNull()
    })
  })
}
