import {
  newOrderNo,
  type OverdueOrder,
  type PaymentBook,
  type PaymentProvider,
} from 'flash-sale-kit'
import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { changed, openTill, tally, useBackend } from './kit.js'

export function closingSuite(kind: DatabaseKind): void {
  describe(`cancelling and deadlines on ${kind}`, () => {
    const backend = useBackend(kind)

    it('C21 (a), (e): a number cancelled before its message is closed, released once, and the late message meets the row', async () => {
      const till = await openTill(backend(), { units: 1 })
      const held = await till.held('ann')
      const cancel = { ...till.ref, orderNo: held.orderNo, userId: 'ann' }
      expect(await till.payments.cancel(cancel)).toEqual({ status: 'closed', reason: 'cancelled' })
      expect(await till.stock.numbers(till.ref)).toMatchObject({
        available: 1,
        pending: 0,
        waiting: 0,
      })
      expect(await till.orders.confirm([held])).toMatchObject([
        { status: 'closed', reason: 'cancelled', fresh: false },
      ])
      expect(await till.payments.cancel(cancel)).toMatchObject({ status: 'already-closed' })
      expect(await till.orders.numbers(till.ref)).toMatchObject({ available: 1, live: 0 })
      await till.sound()
    })

    it('C21 (b): cancel and confirm at once: one row, and the unit follows it', async () => {
      const till = await openTill(backend(), { units: 12 })
      for (let i = 0; i < 12; i++) {
        const held = await till.held(`u${i}`)
        const cancel = { ...till.ref, orderNo: held.orderNo, userId: `u${i}` }
        const [answer] = await Promise.all([
          till.payments.cancel(cancel),
          till.orders.confirm([held]),
        ])
        expect(answer).toEqual({ status: 'closed', reason: 'cancelled' })
        expect(await till.row(held.orderNo)).toMatchObject({
          status: 'closed',
          reason: 'cancelled',
        })
      }
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 12 })
      await till.sound()
    })

    it('C21 (c): buyer, deadline, risk and saga close one order at once: one wins, the others hear already-closed', async () => {
      const till = await openTill(backend(), { units: 1 })
      for (let i = 0; i < 10; i++) {
        const { orderNo } = await till.order('ann')
        await till.expire(orderNo)
        const [, ...answers] = await Promise.all([
          till.keeper.run(),
          till.payments.cancel({ ...till.ref, orderNo, userId: 'ann' }),
          till.payments.close({ orderNo, reason: 'risk' }),
          till.payments.close({ orderNo, reason: 'saga' }),
        ])
        const { reason } = await till.row(orderNo)
        const winners = answers.filter((a) => a.status === 'closed')
        expect(winners).toEqual(reason === 'unpaid' ? [] : [{ status: 'closed', reason }])
        for (const loser of answers.filter((a) => a.status !== 'closed'))
          expect(loser).toEqual({ status: 'already-closed', reason })
        expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 1, frozen: 0 })
      }
      await till.sound()
    })

    it('C21 (d): cancel of a number whose deduction failed, or that never was, releases nothing', async () => {
      const till = await openTill(backend(), { units: 1 })
      await till.held('ann')
      const loser = await till.stock.deduct({ ...till.ref, userId: 'bob', version: 'v1' })
      expect(loser.status).toBe('sold-out')
      const ghost = { ...till.ref, orderNo: newOrderNo(), userId: 'bob' }
      expect(await till.payments.cancel(ghost)).toEqual({ status: 'not-found' })
      expect(await till.orders.find([ghost.orderNo])).toEqual([])
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 0, frozen: 1 })
      const closed = await till.order('ann').catch(() => null)
      expect(closed).toBeNull()
    })

    it('C21 (f): another sale’s name, another SKU or another buyer cancels nothing', async () => {
      const till = await openTill(backend())
      const other = await openTill(backend())
      const order = await till.order('ann')
      const held = await till.held('bob')
      for (const { orderNo, userId } of [order, held])
        for (const wrong of [
          { ...other.ref, orderNo, userId },
          { ...till.ref, skuId: 's2', orderNo, userId },
          { ...till.ref, orderNo, userId: 'mallory' },
        ])
          expect(await till.payments.cancel(wrong)).toEqual({ status: 'not-found' })
      await other.stock.move([
        { to: 'released', reservation: { ...order, ...other.ref }, reason: 'x' },
      ])
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 8, frozen: 2 })
      expect(await other.stock.numbers(other.ref)).toMatchObject({ available: 10, total: 10 })
      expect((await till.row(order.orderNo)).status).toBe('confirmed')
      await till.payments.cancel({ ...till.ref, orderNo: held.orderNo, userId: 'bob' })
      await till.sound()
    })

    it('C21: a paid order is not cancelled', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      await till.payments.notice(await till.paid(order))
      const cancel = { ...till.ref, orderNo: order.orderNo, userId: 'ann' }
      expect(await till.payments.cancel(cancel)).toEqual({ status: 'paid' })
      expect(await till.payments.close({ orderNo: newOrderNo(), reason: 'risk' })).toEqual({
        status: 'not-found',
      })
      await till.sound()
    })

    it('P2: the keeper closes what is overdue by the database’s clock, at the channel first, and units go back', async () => {
      const till = await openTill(backend(), { units: 3 })
      const orders = [await till.order('a'), await till.order('b'), await till.order('c')]
      const [a, b] = orders
      if (!a || !b) throw new Error('three orders')
      const atChannel = await till.asked(a)
      await till.expire(a.orderNo)
      await till.expire(b.orderNo)
      await till.round()
      expect(tally(await till.orders.find(orders.map((o) => o.orderNo)))).toEqual({
        closed: 2,
        confirmed: 1,
      })
      expect(await till.row(a.orderNo)).toMatchObject({ reason: 'unpaid' })
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 2, frozen: 1 })
      expect((await till.payment(atChannel)).status).toBe('closed')
      expect(till.wx.calls, 'asked once').toMatchObject({ close: 1, query: 0 })
      expect(till.wx.pay(atChannel), 'nobody can pay it any more').toBeNull()
      await till.sound()
    })

    it('P2: a payment found paid at the deadline pays the order', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      await till.paid(order) // its callback is lost
      await till.expire(order.orderNo)
      await till.round()
      expect((await till.row(order.orderNo)).status).toBe('paid')
      await till.sound()
    })

    it('P2: a silent channel holds the closing up for channelGraceMs, and no longer', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const paymentId = await till.asked(order)
      const overdue = (lateMs: number) =>
        till
          .knex('seckill_order')
          .where({ order_no: order.orderNo })
          .update({ pay_by: Date.now() - lateMs })
      await overdue(10_000)
      till.wx.fail('close', 'unreached', 4)
      const patient = till.payments.keeper({ channelGraceMs: 3_600_000 })
      await till.round(1, patient)
      expect((await till.row(order.orderNo)).status).toBe('confirmed')
      await till.round(1, till.payments.keeper({ channelGraceMs: 1 }))
      expect((await till.row(order.orderNo)).status).toBe('closed')
      // The buyer pays all the same: it is late money.
      till.wx.pay(paymentId)
      await till.round(3)
      expect(await till.orders.findByBuyer(till.ref, 'ann')).toMatchObject({ status: 'paid' })
      await till.sound()
    })

    it('P2: what is overdue is read page by page, the longest overdue first', async () => {
      const till = await openTill(backend(), { units: 3 })
      const numbers: string[] = []
      for (const user of ['a', 'b', 'c']) numbers.push((await till.order(user)).orderNo)
      await Promise.all(numbers.map((orderNo) => till.expire(orderNo)))
      const [last = ''] = numbers
      await till.knex('seckill_order').where({ order_no: last }).update({ pay_by: 2_000 })
      const seen: string[] = []
      for (let after: OverdueOrder | undefined; ; ) {
        const [one] = await till.book.overdue({ limit: 1, after })
        if (!one) break
        seen.push(one.orderNo)
        after = one
      }
      expect(seen).toEqual([...numbers.slice(1).sort(), last])
    })

    it('P2: a page of orders that cannot be closed does not stand before the others, nor is it read for ever', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      await till.expire(order.orderNo)
      const { book } = till
      let pages = 0
      // Numbers without a row, in place of 256 orders whose hook throws.
      const stuck = Array.from({ length: 256 }, () => {
        return { orderNo: newOrderNo(), payBy: 1, lateMs: 1, payments: [] }
      })
      const crowded = changed<PaymentBook>(book, {
        async overdue(o) {
          if (++pages > 3) throw new Error('this never ends')
          return o.after || pages > 3 ? book.overdue(o) : stuck
        },
      })
      await till.another({ book: crowded }).keeper().run()
      expect(pages).toBe(2)
      expect((await till.row(order.orderNo)).status).toBe('closed')
      await till.sound()
    })

    it('P2: an order whose stock row is gone is left to a person, and holds up nothing', async () => {
      const [bad, till] = [await openTill(backend()), await openTill(backend())]
      const broken = await bad.order('ann')
      const orders = [await till.order('a'), await till.order('b')]
      const notice = await till.paid(await till.order('cy'))
      await till.payments.notice(notice)
      const { paymentId } = notice
      const refund = { paymentId, refundId: newOrderNo(), amountMinor: 1, reason: 'r', made: false }
      await till.book.decideRefund(refund)
      for (const { orderNo } of [broken, ...orders]) await till.expire(orderNo)
      await bad.knex('seckill_stock').where({ activity_id: bad.ref.activityId }).delete()
      await till.keeper.run()
      expect(tally(await till.orders.find(orders.map((o) => o.orderNo)))).toEqual({ closed: 2 })
      expect((await till.row(broken.orderNo)).status).toBe('confirmed')
      expect(await till.tasks('close-failed')).toBe(1)
      expect(till.alerts).toContain('payment-keeper-failed')
      expect(till.wx.calls.refund).toBe(1)
      await till.sound()
    })

    it.each(['overdue', 'takePayments', 'takeRefunds'] as const)(
      'P2: a round whose %s fails does the rest, and says so',
      async (fails) => {
        const till = await openTill(backend())
        const { orderNo } = await till.order('ann')
        await till.expire(orderNo)
        const open = await till.asked(await till.order('bob'), 'ali')
        await till.knex('seckill_payment').where({ payment_id: open }).update({ next_at: 1 })
        const notice = await till.paid(await till.order('cy'))
        await till.payments.notice(notice)
        const refund = { paymentId: notice.paymentId, refundId: newOrderNo(), amountMinor: 1 }
        await till.book.decideRefund({ ...refund, reason: 'r', made: false })
        const book = changed<PaymentBook>(till.book, {
          [fails]: async () => Promise.reject(new Error('the database says no')),
        })
        await till.another({ book }).keeper().run()
        const left = (await till.row(orderNo)).status === 'confirmed'
        expect([left, till.ali.calls.query === 0, till.wx.calls.refund === 0]).toEqual(
          ['overdue', 'takePayments', 'takeRefunds'].map((part) => part === fails),
        )
        expect(till.alerts).toEqual(['payment-keeper-failed'])
      },
    )

    it('P2: a channel that says nothing for long holds up no order but its own, and no refund', async () => {
      const till = await openTill(backend())
      const [own, other, bare] = [
        await till.order('a'),
        await till.order('b'),
        await till.order('c'),
      ]
      await till.asked(own)
      const atAli = await till.asked(other, 'ali')
      const notice = await till.paid(await till.order('d'), till.ali)
      await till.payments.notice(notice)
      const refund = { paymentId: notice.paymentId, refundId: newOrderNo(), amountMinor: 1 }
      await till.book.decideRefund({ ...refund, reason: 'r', made: false })
      for (const { orderNo } of [own, other, bare]) await till.expire(orderNo)
      let release = () => {}
      const silence = new Promise<never>((_, reject) => {
        release = () => reject(new Error('at last'))
      })
      const wx = changed<PaymentProvider>(till.wx, { close: () => silence })
      const providers = [wx, till.ali]
      const keeper = till.another({ providers, callTimeoutMs: 60_000 }).keeper()
      const running = keeper.run()
      const statusOf = async ({ orderNo }: { orderNo: string }) => (await till.row(orderNo)).status
      await expect.poll(() => statusOf(bare)).toBe('closed')
      await expect.poll(() => statusOf(other)).toBe('closed')
      await expect.poll(() => till.ali.calls.refund).toBe(1)
      expect(await statusOf(own)).toBe('confirmed')
      expect(till.ali.pay(atAli)).toBeNull()
      release()
      await running
      await till.sound()
    })

    it('P2: a channel that was silent three times in a row is left alone until the next round', async () => {
      const till = await openTill(backend())
      const silent = [await till.order('a'), await till.order('b'), await till.order('c')]
      silent.push(await till.order('d'), await till.order('e'))
      for (const order of silent) await till.asked(order)
      const other = await till.order('z')
      await till.asked(other, 'ali')
      const late = (of: { orderNo: string }, ms: number) =>
        till
          .knex('seckill_order')
          .where({ order_no: of.orderNo })
          .update({ pay_by: Date.now() - ms })
      for (const order of silent) await late(order, 20_000)
      await late(other, 10_000)
      till.wx.fail('close', 'silent', 10)
      const keeper = till.another({ callTimeoutMs: 30 }).keeper({ concurrency: 1 })
      await keeper.run()
      expect(till.wx.calls.close).toBe(3)
      expect((await till.row(other.orderNo)).status).toBe('closed')
      const rows = await till.orders.find(silent.map((order) => order.orderNo))
      expect(tally(rows)).toEqual({ confirmed: 5 })
      await keeper.run()
      expect(till.wx.calls.close).toBe(6)
      // Its time is over: what it says later is late.
      for (const order of silent) await late(order, 100_000)
      await keeper.run()
      expect(tally(await till.orders.find(rows.map((row) => row.orderNo)))).toEqual({ closed: 5 })
      till.wx.calm()
      await till.round(2)
      await till.sound()
    })

    it('P2: when an order is paid, its payment at the other channel is withdrawn there', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const open = await till.asked(order, 'ali')
      await till.payments.notice(await till.paid(order))
      await till.round()
      expect((await till.payment(open)).status).toBe('closed')
      expect(till.ali.pay(open)).toBeNull()
      await till.sound()
    })

    it('P2: two keepers at once close each order once', async () => {
      const till = await openTill(backend(), { units: 30 })
      for (let i = 0; i < 30; i++) {
        const { orderNo } = await till.order(`u${i}`)
        await till.expire(orderNo)
      }
      await Promise.all([till.keeper.run(), till.another().keeper().run()])
      expect(await till.orders.numbers(till.ref)).toMatchObject({ available: 30, live: 0 })
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 30, frozen: 0 })
      await till.sound()
    })

    it('P2: the keeper starts, and stops as often as it is told', async () => {
      const till = await openTill(backend())
      const { orderNo } = await till.order('ann')
      await till.expire(orderNo)
      const keeper = till.payments.keeper({ everyMs: 10 })
      await keeper.start()
      await expect.poll(async () => (await till.row(orderNo)).status).toBe('closed')
      await Promise.all([keeper.stop(), keeper.stop(), keeper[Symbol.asyncDispose]()])
      await expect(keeper.start()).rejects.toMatchObject({ code: 'STOPPED' })
      await till.sound()
    })
  })
}
