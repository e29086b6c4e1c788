import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { inParallel, type Sale, tally, useKit } from './kit.js'

export function closeSuite(kind: DatabaseKind): void {
  describe(`closeUnpaid and releases on ${kind}`, () => {
    const kit = useKit(kind)
    const booked = async (sale: Sale, count: number) => {
      const orders = sale.reservations(count)
      await kit.book().confirm(orders)
      return orders
    }
    const pay = (orderNo: string) =>
      kit
        .knex('seckill_order')
        .where({ order_no: orderNo, status: 'CONFIRMED' })
        .update({ status: 'PAID' })
    const due = (sale: Sale) =>
      kit
        .knex('local_message')
        .where('payload', 'like', `%"${sale.activityId}"%`)
        .update({ next_retry_time: 1 })

    it('P2: closes confirmed orders, gives the units back and frees the buyer', async () => {
      const sale = await kit.sale({ units: 2 })
      const [a, b] = await booked(sale, 2)
      const closed: string[] = []
      const book = kit.book({
        hooks: {
          async onClose(_, orders, reason) {
            for (const o of orders) closed.push(`${o.orderNo} ${o.amountMinor} ${reason}`)
          },
        },
      })
      const numbers = [a?.orderNo ?? '', b?.orderNo ?? '', 'never-seen']
      expect(tally(await book.closeUnpaid(numbers, 'unpaid'))).toEqual({ 'closed unpaid': 2 })
      expect(closed.sort()).toEqual([a, b].map((o) => `${o?.orderNo} 990 unpaid`).sort())
      expect(await book.numbers(sale.ref())).toMatchObject({ available: 2, live: 0 })
      const again = await book.closeUnpaid(numbers, 'other')
      expect(again.map((v) => v.fresh)).toEqual([false, false])
      expect(tally(again)).toEqual({ 'closed unpaid': 2 })
      expect(closed).toHaveLength(2)
      expect(tally(await book.confirm([sale.reservation(a?.userId ?? '')]))).toEqual({
        confirmed: 1,
      })
    })

    it('C21: a payment and a close of one order: one wins, and the units follow it', async () => {
      const sale = await kit.sale({ units: 24 })
      const orders = await booked(sale, 24)
      const paid = await inParallel(24, [...orders.entries()], async ([i, { orderNo }]) => {
        const acts = [() => kit.book().closeUnpaid([orderNo], 'unpaid'), () => pay(orderNo)]
        if (i % 2) acts.reverse()
        await Promise.all(acts.map((act) => act()))
        const [row] = await kit.book().find([orderNo])
        return row?.status === 'paid'
      })
      const live = paid.filter(Boolean).length
      expect(await kit.book().numbers(sale.ref())).toMatchObject({ live, available: 24 - live })
      const verdicts = await kit.book().closeUnpaid(
        orders.map((o) => o.orderNo),
        'again',
      )
      expect(tally(verdicts)['closed again']).toBeUndefined()
      expect(tally(verdicts).paid ?? 0).toBe(live)
    })

    it('C21: eight closes of the same orders at once give each unit back once', async () => {
      const sale = await kit.sale({ units: 30 })
      const numbers = (await booked(sale, 30)).map((o) => o.orderNo)
      const all = await inParallel(8, [1, 2, 3, 4, 5, 6, 7, 8], () =>
        kit.book().closeUnpaid(numbers, 'unpaid'),
      )
      expect(all.flat().filter((v) => v.fresh)).toHaveLength(30)
      expect(await kit.book().numbers(sale.ref())).toMatchObject({ available: 30, live: 0 })
    })

    it('Q5: an order whose onClose always throws stays confirmed and goes to a person', async () => {
      const sale = await kit.sale({ units: 9 })
      const orders = await booked(sale, 9)
      const poison = orders[4]?.orderNo ?? ''
      const book = kit.book({
        hooks: {
          async onClose(_, closing) {
            if (closing.some((o) => o.orderNo === poison)) throw new Error('no')
          },
        },
      })
      const numbers = orders.map((o) => o.orderNo)
      expect(tally(await book.closeUnpaid(numbers, 'unpaid'))).toEqual({
        'closed unpaid': 8,
        confirmed: 1,
      })
      expect(await kit.count('seckill_manual_task', { kind: 'close-failed', ref: poison })).toBe(1)
      expect(tally(await book.closeUnpaid([poison], 'unpaid'))).toEqual({ confirmed: 1 })
    })

    it('C16: a hook that swallows the loss of its transaction gives no units back', async () => {
      const sale = await kit.sale({ units: 3 })
      const [order] = await booked(sale, 1)
      let lost = 0
      const book = kit.book({
        hooks: {
          async onClose(trx) {
            if (lost++ === 0) await trx.raw('ROLLBACK')
          },
        },
      })
      expect(tally(await book.closeUnpaid([order?.orderNo ?? ''], 'unpaid'))).toEqual({
        'closed unpaid': 1,
      })
      expect(await kit.book().numbers(sale.ref())).toMatchObject({ available: 3, live: 0 })
    })

    it('P2: names the orders whose deadline has passed by the database’s clock', async () => {
      const sale = await kit.sale()
      const [a, b] = await booked(sale, 3)
      const late = (o: typeof a, payBy: number) =>
        kit.knex('seckill_order').where({ order_no: o?.orderNo }).update({ pay_by: payBy })
      await late(a, 1_000)
      await late(b, 500)
      expect(await kit.book().overdue({ limit: 10 })).toEqual([b?.orderNo, a?.orderNo])
      expect(await kit.book().overdue({ limit: 1 })).toEqual([b?.orderNo])
      await kit.book().closeUnpaid([a?.orderNo ?? '', b?.orderNo ?? ''], 'unpaid')
      expect(await kit.book().overdue({ limit: 10 })).toEqual([])
    })

    it('D3: what Redis is owed is offered after 15 s, to one taker at a time, until it is told', async () => {
      const sale = await kit.sale()
      const orders = sale.reservations(20)
      await kit.book().closeUnbooked(orders, 'lost')
      const take = (leaseMs: number) => kit.book().takeReleases({ limit: 7, leaseMs })
      expect(await take(60_000)).toEqual([])
      const [row] = await kit.knex('local_message').where({
        biz_no: `release:${orders[0]?.orderNo}`,
      })
      expect(Number(row.next_retry_time) - Number(row.created_at)).toBe(15_000)

      await due(sale)
      const taken = (await Promise.all([take(60_000), take(60_000), take(60_000)])).flat()
      // Skipping what another has locked may give a taker less than is there; nobody gets what another has.
      const rest = await inParallel(1, [1, 2, 3], () => take(60_000))
      const all = [...taken, ...rest.flat()].map((r) => r.reservation.orderNo)
      expect(all.sort()).toEqual(orders.map((o) => o.orderNo).sort())
      expect(taken[0]).toMatchObject({ reason: 'lost', reservation: { ...sale.ref(), bucket: 0 } })

      await due(sale)
      const done = orders.slice(0, 19).map((o) => o.orderNo)
      await kit.book().released(done)
      await kit.book().released(done)
      expect((await take(60_000)).map((r) => r.reservation.orderNo)).toEqual([orders[19]?.orderNo])
      await kit.book().released([orders[19]?.orderNo ?? ''])
    })

    it('D3: a lease that ran out lets another take the release', async () => {
      const sale = await kit.sale()
      await kit.book().closeUnbooked(sale.reservations(1), 'lost')
      await due(sale)
      const take = (leaseMs: number) => kit.book().takeReleases({ limit: 10, leaseMs })
      expect(await take(60)).toHaveLength(1)
      await new Promise((resolve) => setTimeout(resolve, 120))
      const [again] = await take(60_000)
      expect(again).toBeDefined()
      expect(await take(60_000)).toHaveLength(0)
      await kit.book().released([again?.reservation.orderNo ?? ''])
    })
  })
}
