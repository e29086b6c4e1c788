import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { inParallel, tally, useKit } from './kit.js'

export function confirmSuite(kind: DatabaseKind): void {
  describe(`confirm on ${kind}`, () => {
    const kit = useKit(kind)

    it('D1 D2: confirms a batch and prices it by the terms of its version', async () => {
      const sale = await kit.sale({ units: 10 })
      const [a, b] = [
        sale.reservation('u1', { quantity: 3, payload: { to: "O'Hara \\ 秒杀 🔥" } }),
        sale.reservation('u2'),
      ]
      expect(await kit.book().confirm([a, b])).toEqual([
        { orderNo: a.orderNo, status: 'confirmed', fresh: true },
        { orderNo: b.orderNo, status: 'confirmed', fresh: true },
      ])
      const [row] = await kit.book().find([a.orderNo])
      const { payBy, ...rest } = row as NonNullable<typeof row>
      expect(rest).toEqual({
        ...a,
        status: 'confirmed',
        reason: null,
        amountMinor: 2970,
        currency: 'CNY',
      })
      expect(Math.abs(payBy - Date.now() - 900_000)).toBeLessThan(10_000)
      expect(await kit.book().numbers(sale.ref())).toEqual({
        ...sale.ref(),
        total: 10,
        available: 6,
        live: 4,
      })
    })

    it('D2: a batch that comes again, also four times at once, changes nothing', async () => {
      const sale = await kit.sale({ units: 7 })
      const batch = sale.reservations(10)
      const all = await inParallel(4, [1, 2, 3, 4], () => kit.book().confirm(batch))
      for (const verdicts of all)
        expect(tally(verdicts)).toEqual({ confirmed: 7, 'closed sold-out': 3 })
      expect(all.flat().filter((v) => v.fresh)).toHaveLength(10)
      const before = await kit.rows(sale)
      const again = await kit.book().confirm([...batch].reverse())
      expect(again.every((v) => !v.fresh)).toBe(true)
      expect(await kit.rows(sale)).toEqual(before)
    })

    for (const stockUpdate of ['conditional', 'optimistic'] as const)
      it(`D1: 16 confirm at once and sell exactly the stock (${stockUpdate})`, async () => {
        const sale = await kit.sale({ units: 100 })
        const book = kit.book({ stockUpdate })
        const batches = Array.from({ length: 32 }, (_, i) =>
          sale.reservations(4, { quantity: 1 + (i % 3) }),
        )
        const verdicts = (await inParallel(16, batches, (batch) => book.confirm(batch))).flat()
        expect(await kit.book().numbers(sale.ref())).toMatchObject({ available: 0, live: 100 })
        expect(verdicts.every((v) => v.fresh)).toBe(true)
        const confirmed = new Set(
          verdicts.filter((v) => v.status === 'confirmed').map((v) => v.orderNo),
        )
        for (const row of await kit.rows(sale)) {
          expect(row.status).toBe(confirmed.has(row.order_no) ? 'CONFIRMED' : 'CLOSED')
          if (row.status === 'CLOSED') expect(row.reason).toBe('sold-out')
        }
        const closed = verdicts.length - confirmed.size
        expect(closed).toBeGreaterThan(0)
        const owed = await kit.knex('local_message').whereIn(
          'biz_no',
          verdicts.map((v) => `release:${v.orderNo}`),
        )
        expect(owed).toHaveLength(closed)
      })

    it('D1 C05: an order too big for what is left does not keep a smaller one from the last unit', async () => {
      const sale = await kit.sale({ units: 3 })
      const batch = [2, 2, 1, 1].map((quantity, i) => sale.reservation(`u${i}`, { quantity }))
      const verdicts = await kit.book().confirm(batch)
      expect(verdicts.map((v) => v.status)).toEqual(['confirmed', 'closed', 'confirmed', 'closed'])
    })

    it('C18: the second order of a buyer is closed, and his first is not altered in any column', async () => {
      const sale = await kit.sale()
      const first = sale.reservation('u1', { payload: 'first' })
      await kit.book().confirm([first])
      const before = await kit.rows(sale)
      const second = sale.reservation('u1', { quantity: 2, payload: 'second' })
      expect(await kit.book().confirm([second])).toEqual([
        { orderNo: second.orderNo, status: 'closed', reason: 'already-bought', fresh: true },
      ])
      const after = await kit.rows(sale)
      expect(after.filter((r) => r.order_no === first.orderNo)).toEqual(before)
      expect(after).toHaveLength(2)
    })

    it('C18: of 50 orders the one of a buyer who has one already is closed, 49 are stored', async () => {
      const sale = await kit.sale()
      const batch = sale.reservations(50)
      const twin = sale.reservation(batch[25]?.userId ?? '')
      await kit.book().confirm([twin])
      expect(tally(await kit.book().confirm(batch))).toEqual({
        confirmed: 49,
        'closed already-bought': 1,
      })
      expect(await kit.book().numbers(sale.ref())).toMatchObject({ live: 50 })
    })

    it('D2: 20 orders of one buyer at once leave him one, with a row for each', async () => {
      const sale = await kit.sale()
      const orders = Array.from({ length: 20 }, () => sale.reservation('u1'))
      const verdicts = await inParallel(20, orders, (order) => kit.book().confirm([order]))
      expect(tally(verdicts.flat())).toEqual({ confirmed: 1, 'closed already-bought': 19 })
      expect(await kit.rows(sale)).toHaveLength(20)
    })

    it('D2: in one list, a number named twice counts once and a buyer gets one order', async () => {
      const sale = await kit.sale()
      const [a, b] = [sale.reservation('u1'), sale.reservation('u1')]
      expect(await kit.book().confirm([a, a, b])).toEqual([
        { orderNo: a.orderNo, status: 'confirmed', fresh: true },
        { orderNo: b.orderNo, status: 'closed', reason: 'already-bought', fresh: true },
      ])
    })

    it('D2: the limit may hold for the whole activity', async () => {
      const sale = await kit.sale({ skus: 2 })
      const book = kit.book({ onePer: 'activity' })
      const orders = [sale.reservation('u1'), sale.reservation('u1', { skuId: 's2' })]
      expect(tally(await book.confirm(orders))).toEqual({
        confirmed: 1,
        'closed already-bought': 1,
      })
      expect(await book.findByBuyer(sale.ref(2), 'u1')).toMatchObject({ status: 'closed' })
    })

    it('D3: closes what names another version, too many units, or an SKU nobody prepared', async () => {
      const sale = await kit.sale({ maxPerOrder: 2 })
      const other = sale.reservation('u1', { version: 'v2' })
      const verdicts = await kit
        .book()
        .confirm([
          other,
          sale.reservation('u2', { quantity: 3 }),
          sale.reservation('u3', { skuId: 'nowhere' }),
          sale.reservation('u4', { skuId: 'nowhere' }),
          sale.reservation('u5', { quantity: 2 }),
        ])
      expect(tally(verdicts)).toEqual({
        'closed version-mismatch': 1,
        'closed over-limit': 1,
        'closed no-stock-row': 2,
        confirmed: 1,
      })
      // A price is of a version; no other's is borrowed.
      expect(await kit.book().find([other.orderNo])).toMatchObject([
        { amountMinor: 0, currency: 'XXX' },
      ])
      expect(
        await kit.count('seckill_manual_task', {
          kind: 'no-stock-row',
          ref: `${sale.activityId}|nowhere`,
        }),
      ).toBe(1)
    })

    it('D1: books several SKUs, and more rows than one statement takes, in one call', async () => {
      const sale = await kit.sale({ skus: 3, units: 400 })
      const batch = [1, 2, 3].flatMap((n) => sale.reservations(420, { skuId: `s${n}` }))
      const verdicts = await kit.book().confirm(batch)
      expect(tally(verdicts)).toEqual({ confirmed: 1200, 'closed sold-out': 60 })
      expect(verdicts.map((v) => v.orderNo)).toEqual(batch.map((r) => r.orderNo))
    })

    it('D3: whoever first writes a number, confirm or closeUnbooked, decides it for ever', async () => {
      const sale = await kit.sale()
      const orders = sale.reservations(30)
      const verdicts = await inParallel(30, orders, async (order) => {
        const [a, b] = await Promise.all([
          kit.book().confirm([order]),
          kit.book().closeUnbooked([order], 'lost'),
        ])
        return [...a, ...b]
      })
      for (const pair of verdicts) {
        expect(new Set(pair.map((v) => v.status)).size).toBe(1)
        expect(pair.filter((v) => v.fresh)).toHaveLength(1)
      }
      const late = await kit.book().confirm(orders)
      expect(late.map((v) => v.status)).toEqual(verdicts.map((pair) => pair[0]?.status))
    })

    it('D3: closeUnbooked closes what has no row and leaves a confirmed order alone', async () => {
      const sale = await kit.sale()
      const [a, b] = [sale.reservation('u1'), sale.reservation('u2')]
      await kit.book().confirm([a])
      expect(await kit.book().closeUnbooked([a, b], 'send-rejected')).toEqual([
        { orderNo: a.orderNo, status: 'confirmed', fresh: false },
        { orderNo: b.orderNo, status: 'closed', reason: 'send-rejected', fresh: true },
      ])
      expect(await kit.book().confirm([b])).toEqual([
        { orderNo: b.orderNo, status: 'closed', reason: 'send-rejected', fresh: false },
      ])
      expect(await kit.count('local_message', { biz_no: `release:${b.orderNo}` })).toBe(1)
    })

    it('stops before it begins when the signal is aborted', async () => {
      const sale = await kit.sale()
      await expect(
        kit.book().confirm(sale.reservations(2), AbortSignal.abort()),
      ).rejects.toMatchObject({ code: 'STOPPED' })
      expect(await kit.rows(sale)).toEqual([])
    })
  })
}
