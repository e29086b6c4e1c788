import { newOrderNo, type PaymentNotice, type PaymentProvider } from 'flash-sale-kit'
import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { changed, openTill, PRICE, tally, useBackend } from './kit.js'

/** What a channel says it got, of 9900 CNY asked for; the sandbox has really got it where it can be money. */
const WRONG: readonly (readonly [string, Partial<Record<keyof PaymentNotice, unknown>>])[] = [
  ['one less', { amountMinor: PRICE - 1 }],
  ['one more', { amountMinor: PRICE + 1 }],
  ['another currency', { currency: 'USD' }],
  ['99 where 9900 is meant', { amountMinor: 99.0 }],
]

/** What is no money: nothing can be booked, nothing given back. */
const NO_MONEY: readonly (readonly [string, Partial<Record<keyof PaymentNotice, unknown>>])[] = [
  ['zero', { amountMinor: 0 }],
  ['a negative amount', { amountMinor: -PRICE }],
  ['text', { amountMinor: '99.00' }],
  ['whole text', { amountMinor: '9900' }],
  ['a fraction', { amountMinor: 98.99999 }],
  ['NaN', { amountMinor: Number.NaN }],
  ['a BigInt', { amountMinor: 9900n }],
  ['2^53', { amountMinor: 2 ** 53 }],
  ['no amount', { amountMinor: undefined }],
  ['a currency that is none', { currency: 'rmb' }],
]

export function misfitSuite(kind: DatabaseKind): void {
  describe(`money that does not fit, on ${kind}`, () => {
    const backend = useBackend(kind)

    it.each(WRONG)(
      'C24: %s, said and received: never PAID, stored, alerted, given back',
      async (_, odd) => {
        const till = await openTill(backend())
        const order = await till.order('ann')
        const paymentId = await till.asked(order)
        const notice = till.wx.pay(paymentId, odd as object) as PaymentNotice
        expect(await till.payments.notice(notice)).toEqual({ status: 'anomaly', acknowledge: true })
        expect(till.alerts).toContain('payment-anomaly')
        expect(await till.tasks('payment-anomaly')).toBeGreaterThan(0)
        expect((await till.row(order.orderNo)).status).toBe('confirmed')
        await till.round(2)
        expect((await till.payment(paymentId)).status).toBe('refunded')
        expect(await till.payments.notice(notice)).toMatchObject({ status: 'repeated' })
        // The buyer may pay anew, the right amount.
        const anew = await till.paid(order)
        expect(anew.paymentId).not.toBe(paymentId)
        expect(await till.payments.notice(anew)).toMatchObject({ status: 'applied' })
        await till.sound()
      },
    )

    it.each(WRONG)(
      'C24: %s, said and not received: never PAID, stored, alerted, nothing given back',
      async (_, odd) => {
        const till = await openTill(backend())
        const order = await till.order('ann')
        const paymentId = await till.asked(order)
        const said = {
          channel: 'wx',
          paymentId,
          tradeNo: newOrderNo(),
          amountMinor: PRICE,
          currency: 'CNY',
          verified: true,
        }
        expect(await till.payments.notice({ ...said, ...odd } as PaymentNotice)).toEqual({
          status: 'anomaly',
          acknowledge: true,
        })
        // The buyer may yet pay it, so it is nothing definite before the deadline.
        await till.round(2)
        expect((await till.row(order.orderNo)).status).toBe('confirmed')
        const { capturedMinor } = await till.payment(paymentId)
        expect(capturedMinor).toBe(odd.amountMinor ?? PRICE)
        await till.expire(order.orderNo)
        await till.round()
        expect(await till.row(order.orderNo)).toMatchObject({ status: 'closed', reason: 'unpaid' })
        expect(await till.payment(paymentId)).toMatchObject({ status: 'anomaly', capturedMinor: 0 })
        expect(till.wx.pay(paymentId), 'nobody can pay it any more').toBeNull()
        expect(till.wx.calls.refund).toBe(0)
        await till.sound()
      },
    )

    it('C24: a wrong amount that the channel sets right is applied', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const notice = await till.paid(order)
      expect(await till.payments.notice({ ...notice, amountMinor: 99 })).toMatchObject({
        status: 'anomaly',
      })
      expect((await till.row(order.orderNo)).status).toBe('paid')
      expect(await till.payments.notice(notice)).toMatchObject({ status: 'repeated' })
      expect(await till.payments.notice({ ...notice, amountMinor: 99 })).toMatchObject({
        status: 'anomaly',
      })
      expect(await till.payment(notice.paymentId)).toMatchObject({
        status: 'paid',
        capturedMinor: PRICE,
      })
      await till.sound()
    })

    it.each([1, 12])(
      'C24: %s times the query has not heard of the money yet: asked again, and applied',
      async (times) => {
        const till = await openTill(backend())
        const order = await till.order('ann')
        const notice = await till.paid(order)
        till.wx.fail('query', 'denied', times)
        await till.payments.notice({ ...notice, amountMinor: 99 })
        await till.round(times)
        expect((await till.row(order.orderNo)).status).toBe('paid')
        expect(await till.openTasks('payment-anomaly')).toBe(0)
        await till.sound()
      },
    )

    it('C24: what was open when a callback lied, and is paid without another: the deadline finds it', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const paymentId = await till.asked(order)
      const said = { channel: 'wx', paymentId, currency: 'CNY', verified: true }
      await till.payments.notice({ ...said, tradeNo: newOrderNo(), amountMinor: 99 })
      till.wx.pay(paymentId)
      till.wx.fail('query', 'unreached', 100)
      await till.expire(order.orderNo)
      await till.round(2)
      expect(await till.row(order.orderNo)).toMatchObject({ status: 'paid' })
      expect(await till.payment(paymentId)).toMatchObject({ status: 'anomaly', capturedMinor: 0 })
      await till.sound()
    })

    it('C24: once its order is over, an anomaly is closed at the channel at once', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const { orderNo } = order
      const paymentId = await till.asked(order)
      const said = { channel: 'wx', paymentId, currency: 'CNY', verified: true }
      await till.payments.notice({ ...said, tradeNo: newOrderNo(), amountMinor: 99 })
      await till.payments.close({ orderNo, reason: 'risk' })
      await till.keeper.run()
      expect(await till.payment(paymentId)).toMatchObject({ status: 'anomaly', capturedMinor: 0 })
      expect(till.wx.pay(paymentId)).toBeNull()
      await till.sound()
    })

    it('C24: a silent channel holds up the closing of an order with an anomaly, too; then it is asked on', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const notice = await till.paid(order)
      till.wx.fail('query', 'denied', 1)
      await till.payments.notice({ ...notice, amountMinor: 99 })
      till.wx.fail('close', 'unreached', 20)
      await till.expire(order.orderNo)
      await till.round(1, till.payments.keeper({ channelGraceMs: 86_400_000 }))
      // It is late by decades.
      await till.round(12)
      expect((await till.row(order.orderNo)).status).toBe('closed')
      till.wx.calm()
      await till.round(2)
      expect(await till.orders.findByBuyer(till.ref, 'ann')).toMatchObject({ status: 'paid' })
      await till.sound()
    })

    it('C24: a channel that does not answer about an anomaly is asked again', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const paymentId = await till.asked(order)
      const notice = till.wx.pay(paymentId, { amountMinor: PRICE - 1 }) as PaymentNotice
      till.wx.fail('query', 'unreached', 3)
      await till.payments.notice(notice)
      await till.round(2)
      expect(await till.payment(paymentId)).toMatchObject({
        status: 'anomaly',
        capturedMinor: PRICE - 1,
      })
      await till.round(2)
      expect((await till.payment(paymentId)).status).toBe('refunded')
      await till.sound()
    })

    it.each(NO_MONEY)(
      'C24: %s is no amount: stored, alerted, never PAID; the deadline finds the real money',
      async (_, odd) => {
        const till = await openTill(backend())
        const order = await till.order('ann')
        const notice = await till.paid(order)
        const answer = await till.payments.notice({ ...notice, ...odd } as PaymentNotice)
        expect(answer).toEqual({ status: 'anomaly', acknowledge: true })
        expect(till.alerts).toEqual(['payment-anomaly'])
        expect(await till.tasks('payment-anomaly')).toBeGreaterThan(0)
        expect((await till.row(order.orderNo)).status).toBe('confirmed')
        expect((await till.payment(notice.paymentId)).status).toBe('created')
        await till.expire(order.orderNo)
        await till.round()
        expect((await till.row(order.orderNo)).status).toBe('paid')
        await till.sound()
      },
    )

    it('C24: the right amount for another buyer’s order is not taken', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const notice = await till.paid(order)
      const answer = await till.payments.notice({ ...notice, userId: 'bob' })
      expect(answer).toEqual({ status: 'anomaly', acknowledge: true })
      await till.round(2)
      expect((await till.row(order.orderNo)).status).toBe('confirmed')
      expect((await till.payment(notice.paymentId)).status).toBe('refunded')
      await till.sound()
    })

    it('C24: an order of another sale, or a payment of another channel, is not taken', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const notice = await till.paid(order)
      const elsewhere = { activityId: 'elsewhere', skuId: 's1', orderNo: order.orderNo }
      expect(
        await till.payments.notice({ ...notice, userId: 'ann', order: elsewhere }),
      ).toMatchObject({ status: 'anomaly' })
      const other = { ...notice, channel: 'ali', tradeNo: newOrderNo() }
      expect(await till.payments.notice(other)).toMatchObject({ status: 'anomaly' })
      expect((await till.row(order.orderNo)).status).toBe('confirmed')
      await till.round(2)
      expect(till.ali.calls.refund).toBe(0)
      await till.sound()
    })

    it('C24: a notice whose signature was bad is stored, not acknowledged, and never applied', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const notice = await till.paid(order)
      for (const verified of [false, undefined, 'true', 1]) {
        const bad = { ...notice, verified } as PaymentNotice
        expect(await till.payments.notice(bad)).toEqual({ status: 'anomaly', acknowledge: false })
      }
      expect((await till.row(order.orderNo)).status).toBe('confirmed')
      expect(
        await till
          .knex('seckill_manual_task')
          .where('ref', 'like', `unverified:wx:${notice.tradeNo}`),
      ).toHaveLength(1)
      expect(await till.payments.notice(notice)).toMatchObject({ status: 'applied' })
      await till.sound()
    })

    it('C24: two channels at once: one PAID, the other’s money goes back once, both are acknowledged', async () => {
      const till = await openTill(backend())
      for (let i = 0; i < 6; i++) {
        const order = await till.order(`u${i}`)
        const a = await till.paid(order)
        const b = await till.paid(order, till.ali)
        const answers = await Promise.all([
          till.payments.notice(a),
          till.payments.notice(b),
          till.payments.notice(a),
          till.payments.notice(b),
        ])
        expect(tally(answers)).toEqual({ applied: 1, refunding: 1, repeated: 2 })
        expect(answers.every((answer) => answer.acknowledge)).toBe(true)
      }
      await till.round(2)
      expect([...till.wx.refunds(), ...till.ali.refunds()]).toHaveLength(6)
      expect(till.wx.calls.refund + till.ali.calls.refund).toBe(6)
      await till.sound()
    })

    it('C24: one payment received twice pays once; the second money goes back', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const notice = await till.paid(order)
      const twice: PaymentNotice = { ...notice, tradeNo: newOrderNo() }
      expect(await till.payments.notice(notice)).toMatchObject({ status: 'applied' })
      expect(await till.payments.notice(twice)).toMatchObject({ status: 'refunding' })
      expect(await till.payments.notice(twice)).toMatchObject({ status: 'repeated' })
      const second = await till.book.findTrade('wx', twice.tradeNo)
      expect(second).toMatchObject({
        status: 'refunding',
        orderNo: order.orderNo,
        paidOrderNo: null,
      })
      await till.sound()
    })

    it('C24: the order’s number as the merchant’s number at both channels: the second money goes back', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const { orderNo, userId } = order
      const named = { amountMinor: PRICE, userId, order: { ...till.ref, orderNo } }
      const [a, b] = [till.wx.pay(orderNo, named), till.ali.pay(orderNo, named)]
      if (!a || !b) throw new Error('closed at the channel')
      till.ali.fail('query', 'denied')
      expect(await till.payments.notice(a)).toMatchObject({ status: 'applied' })
      expect(await till.payments.notice(b)).toMatchObject({ status: 'anomaly' })
      await till.round(3)
      expect((await till.row(orderNo)).status).toBe('paid')
      expect(till.wx.refunds()).toEqual([])
      expect(till.ali.refunds()).toMatchObject([{ paymentId: orderNo, tradeNo: b.tradeNo }])
      expect(await till.book.findTrade('ali', b.tradeNo)).toMatchObject({
        status: 'refunded',
        channelPaymentId: orderNo,
      })
      await till.sound()
    })

    it('C24: the refund of a second money of one payment is asked for under the merchant’s number', async () => {
      const till = await openTill(backend())
      const notice = await till.paid(await till.order('ann'))
      await till.payments.notice(notice)
      await till.payments.notice({ ...notice, tradeNo: newOrderNo() })
      const asked: string[] = []
      const wx = changed<PaymentProvider>(till.wx, {
        refund: async ({ paymentId }) => {
          asked.push(`refund ${paymentId}`)
          throw new Error('no answer')
        },
        queryRefund: async ({ paymentId }) => {
          asked.push(`queryRefund ${paymentId}`)
          return { status: 'refunded' }
        },
      })
      await till.round(2, till.another({ providers: [wx] }).keeper())
      const { paymentId } = notice
      expect(asked).toEqual([`refund ${paymentId}`, `queryRefund ${paymentId}`])
    })

    it('C24: a contradiction that comes after the task was dealt with opens it again', async () => {
      const till = await openTill(backend())
      const notice = await till.paid(await till.order('ann'))
      await till.payments.notice(notice)
      for (let i = 0; i < 2; i++) {
        await till.payments.notice({ ...notice, amountMinor: 99 })
        expect(await till.openTasks('payment-anomaly')).toBe(1)
        await till.resolveTasks('payment-anomaly')
      }
      await till.sound()
    })

    it('C24: states only move forward: PAID and REFUNDED hear late copies without a change', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const notice = await till.paid(order)
      await till.payments.notice(notice)
      const { paymentId } = notice
      await till.payments.refund({
        paymentId,
        refundId: 'all',
        amountMinor: PRICE,
        reason: 'asked',
      })
      expect((await till.payment(paymentId)).status).toBe('refunded')
      expect(await till.payments.notice(notice)).toEqual({ status: 'repeated', acknowledge: true })
      expect((await till.payment(paymentId)).status).toBe('refunded')
      expect(await till.row(order.orderNo)).toMatchObject({ status: 'closed', reason: 'refunded' })
      await till.sound()
    })
  })
}
