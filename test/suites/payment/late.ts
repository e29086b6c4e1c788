import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { AUDIT, openTill, PRICE, type Till, tally, useBackend } from './kit.js'

export function lateSuite(kind: DatabaseKind): void {
  describe(`late payments on ${kind}`, () => {
    const backend = useBackend(kind)
    const liveOf = async (till: Till, userId: string) => till.orders.findByBuyer(till.ref, userId)

    /** An order closed as unpaid, whose money came all the same. */
    async function late(till: Till, userId = 'ann') {
      const order = await till.order(userId)
      const notice = await till.paid(order)
      await till.payments.close({ orderNo: order.orderNo, reason: 'unpaid' })
      return { order, notice }
    }

    it('P2, P1, P4: late money buys a new order, PAID; the closed number stays closed; Redis adopts', async () => {
      const told: unknown[] = []
      const till = await openTill(backend(), {
        units: 1,
        book: {
          hooks: {
            async onPaid(_, order, payment) {
              told.push([order.quantity, payment.insteadOf])
            },
          },
        },
      })
      const { order, notice } = await late(till)
      expect(await till.payments.notice(notice)).toEqual({ status: 'applied', acknowledge: true })
      expect(await till.row(order.orderNo)).toMatchObject({ status: 'closed', reason: 'unpaid' })
      const bought = await liveOf(till, 'ann')
      expect(bought).toMatchObject({
        status: 'paid',
        quantity: 1,
        amountMinor: PRICE,
        version: 'v1',
      })
      expect(bought?.orderNo).not.toBe(order.orderNo)
      expect(await till.payment(notice.paymentId)).toMatchObject({
        status: 'paid',
        orderNo: order.orderNo,
        paidOrderNo: bought?.orderNo,
      })
      expect(told).toEqual([[1, order.orderNo]])
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 0, sold: 1, over: 0 })
      expect(till.alerts).toContain('late-payment')
      // Whoever closes again, or repeats, finds nothing to give back.
      await till.payments.close({ orderNo: order.orderNo, reason: 'unpaid' })
      expect(await till.payments.notice(notice)).toMatchObject({ status: 'repeated' })
      await till.stock.move([{ to: 'released', reservation: order, reason: 'again' }])
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 0, sold: 1, over: 0 })
      await till.sound()
    })

    it('P2: a Redis that has not heard of the closing yet gives the new order its buyer’s mark', async () => {
      const till = await openTill(backend(), { units: 1 })
      const order = await till.order('ann')
      const notice = await till.paid(order)
      await till.orders.closeUnpaid([order.orderNo], 'unpaid')
      expect(await till.payments.notice(notice)).toMatchObject({ status: 'applied' })
      const bought = await liveOf(till, 'ann')
      expect(await till.stock.reservation(till.ref, 'ann')).toMatchObject({
        state: 'paid',
        orderNo: bought?.orderNo,
      })
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 0, sold: 1, over: 0 })
      await till.sound()
    })

    it('P2: eight copies of late money are one new order', async () => {
      const till = await openTill(backend())
      const { notice } = await late(till)
      const both = [till.payments, till.another()]
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, i) => (both[i % 2] ?? till.payments).notice(notice)),
      )
      expect(tally(answers)).toEqual({ applied: 1, repeated: 7 })
      expect(await till.orders.numbers(till.ref)).toMatchObject({ live: 1 })
      await till.sound()
    })

    it('P2: late money without units goes back, once', async () => {
      const till = await openTill(backend(), { units: 1 })
      const { order, notice } = await late(till)
      const next = await till.order('bob')
      expect(await till.payments.notice(notice)).toEqual({ status: 'refunding', acknowledge: true })
      expect(await till.payments.notice(notice)).toEqual({ status: 'repeated', acknowledge: true })
      await till.round(2)
      expect((await till.payment(notice.paymentId)).status).toBe('refunded')
      expect(till.wx.calls.refund).toBe(1)
      expect((await till.row(order.orderNo)).status).toBe('closed')
      expect((await till.row(next.orderNo)).status).toBe('confirmed')
      await till.sound()
    })

    it('P2: three late payments for two units: two new orders, one refund', async () => {
      const till = await openTill(backend(), { units: 3 })
      const notices = []
      for (const user of ['a', 'b', 'c']) notices.push((await late(till, user)).notice)
      await till.order('d')
      const answers = await Promise.all(notices.map((n) => till.payments.notice(n)))
      expect(tally(answers)).toEqual({ applied: 2, refunding: 1 })
      await till.round()
      await till.sound()
    })

    it('P2: late money of a buyer who has another live order goes back', async () => {
      const till = await openTill(backend())
      const { notice } = await late(till)
      const second = await till.order('ann')
      expect(await till.payments.notice(notice)).toMatchObject({ status: 'refunding' })
      expect(await liveOf(till, 'ann')).toMatchObject({
        orderNo: second.orderNo,
        status: 'confirmed',
      })
      await till.round()
      await till.sound()
    })

    it('P2: two late payments of one buyer: one new order, the other goes back', async () => {
      const till = await openTill(backend())
      const notices = []
      for (let i = 0; i < 2; i++) notices.push((await late(till)).notice)
      const answers = await Promise.all(notices.map((n) => till.payments.notice(n)))
      expect(tally(answers)).toEqual({ applied: 1, refunding: 1 })
      await till.round()
      await till.sound()
    })

    it.each(['cancelled', 'risk'])(
      'P2: money for an order closed as %s goes back',
      async (reason) => {
        const till = await openTill(backend())
        const order = await till.order('ann')
        const notice = await till.paid(order)
        await till.payments.close({ orderNo: order.orderNo, reason })
        expect(await till.payments.notice(notice)).toMatchObject({ status: 'refunding' })
        await till.round()
        expect(await till.orders.numbers(till.ref)).toMatchObject({ live: 0 })
        await till.sound()
      },
    )

    it('P2: with latePayment refund, and while the sale is stopped, late money goes back', async () => {
      const till = await openTill(backend())
      const strict = till.another({ latePayment: 'refund' })
      expect(await strict.notice((await late(till, 'a')).notice)).toMatchObject({
        status: 'refunding',
      })
      await till.control.set(till.ref.activityId, 'stopped', AUDIT)
      expect(await till.payments.notice((await late(till, 'b')).notice)).toMatchObject({
        status: 'refunding',
      })
      await till.round()
      await till.sound()
    })

    it('P2: an onPaid that throws for a late payment keeps the money, and no unit is taken', async () => {
      let broken = true
      const till = await openTill(backend(), {
        units: 1,
        book: {
          hooks: {
            async onPaid() {
              if (broken) throw new Error('the host cannot')
            },
          },
        },
      })
      const { notice } = await late(till)
      expect(await till.payments.notice(notice)).toMatchObject({ status: 'retry-later' })
      expect(await till.orders.numbers(till.ref)).toMatchObject({ available: 1, live: 0 })
      broken = false
      await till.round()
      expect(await liveOf(till, 'ann')).toMatchObject({ status: 'paid' })
      await till.sound()
    })
  })
}
