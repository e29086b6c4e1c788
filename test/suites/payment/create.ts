import { setTimeout as sleep } from 'node:timers/promises'
import { newOrderNo, type PaymentBook, type PaymentProvider } from 'flash-sale-kit'
import { KnexOrderBook, KnexPaymentBook } from 'flash-sale-kit/knex'
import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { changed, openTill, PRICE, tally, useBackend } from './kit.js'

export function createSuite(kind: DatabaseKind): void {
  describe(`Payments.create on ${kind}`, () => {
    const backend = useBackend(kind)

    it('P1: only the owner of a CONFIRMED order before its deadline gets a payment', async () => {
      const till = await openTill(backend())
      const ask = (orderNo: string, userId: string) =>
        till.payments.create({ orderNo, userId, channel: 'wx' })
      const held = await till.held('ann')
      expect(await ask(held.orderNo, 'ann')).toEqual({ status: 'not-found' })
      await till.orders.confirm([held])
      expect(await ask(held.orderNo, 'bob')).toEqual({ status: 'not-found' })
      expect(till.wx.calls.create).toBe(0)
      const made = await ask(held.orderNo, 'ann')
      expect(made).toMatchObject({
        status: 'created',
        payment: { orderNo: held.orderNo, userId: 'ann', amountMinor: PRICE, currency: 'CNY' },
      })

      const late = await till.order('cy')
      await till.expire(late.orderNo)
      expect(await ask(late.orderNo, 'cy')).toEqual({ status: 'too-late' })
      await till.payments.close({ orderNo: late.orderNo, reason: 'risk' })
      expect(await ask(late.orderNo, 'cy')).toEqual({ status: 'closed', reason: 'risk' })
      const paid = await till.order('di')
      await till.payments.notice(await till.paid(paid))
      expect(await ask(paid.orderNo, 'di')).toEqual({ status: 'paid' })
    })

    it("P1: a book whose onePer is not the order book's makes no payment, and says so", async () => {
      const till = await openTill(backend())
      const { orderNo } = await till.order('ann')
      const { knex } = till
      const book = new KnexPaymentBook({ knex, onePer: 'activity' })
      const question = { orderNo, userId: 'ann', channel: 'wx' }
      const wrong = till.another({ book }).create(question)
      await expect(wrong).rejects.toMatchObject({ code: 'BAD_OPTION' })
      await expect(wrong).rejects.toThrow(/onePer.*activity.*nothing was written/)
      expect(await knex('seckill_payment').where({ order_no: orderNo })).toEqual([])
      expect(till.wx.calls.create).toBe(0)
      const orders = new KnexOrderBook({ knex, onePer: 'activity' })
      const held = await till.held('bob')
      await orders.confirm([held])
      const asked = { orderNo: held.orderNo, userId: 'bob', channel: 'wx' }
      await expect(till.payments.create(asked)).rejects.toMatchObject({ code: 'BAD_OPTION' })
      expect(await till.another({ book }).create(asked)).toMatchObject({ status: 'created' })
    })

    it('P1: a repeat gives the same payment, also eight at once from two processes', async () => {
      const till = await openTill(backend())
      const { orderNo } = await till.order('ann')
      const both = [till.payments, till.another()]
      const question = { orderNo, userId: 'ann', channel: 'wx' }
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, i) => (both[i % 2] ?? till.payments).create(question)),
      )
      const again = await till.payments.create(question)
      const ids = [...answers, again].map((a) =>
        a.status === 'created'
          ? a.payment.paymentId
          : a.status === 'unknown'
            ? a.paymentId
            : a.status,
      )
      expect(new Set(ids).size).toBe(1)
      expect(again.status).toBe('created')
      expect(till.wx.calls.create).toBe(1)
      const other = await till.payments.create({ ...question, channel: 'ali' })
      expect(other).toMatchObject({ status: 'created' })
      expect(await till.book.find([orderNo])).toHaveLength(2)
    })

    it('P1: a create whose answer was lost is looked up before a second one', async () => {
      const till = await openTill(backend())
      const { orderNo } = await till.order('ann')
      const question = { orderNo, userId: 'ann', channel: 'wx' }
      till.wx.fail('create', 'lost-answer')
      const lost = await till.payments.create(question)
      expect(lost).toMatchObject({ status: 'unknown' })
      // Until its lease ends nobody else asks.
      expect(await till.payments.create(question)).toEqual(lost)
      expect(till.wx.calls).toMatchObject({ create: 1, query: 0 })
      await till.knex('seckill_payment').where({ order_no: orderNo }).update({ next_at: 1 })
      expect(await till.payments.create(question)).toMatchObject({ status: 'created' })
      expect(till.wx.calls).toMatchObject({ create: 1, query: 1 })
    })

    it('P1: a create that never arrived is made after the look, with the same id', async () => {
      const till = await openTill(backend())
      const { orderNo } = await till.order('ann')
      const question = { orderNo, userId: 'ann', channel: 'wx' }
      till.wx.fail('create', 'unreached')
      const lost = await till.payments.create(question)
      await till.knex('seckill_payment').where({ order_no: orderNo }).update({ next_at: 1 })
      till.wx.fail('query', 'unreached')
      expect(await till.payments.create(question)).toEqual(lost)
      await till.knex('seckill_payment').where({ order_no: orderNo }).update({ next_at: 1 })
      const made = await till.payments.create(question)
      expect(made).toMatchObject({
        status: 'created',
        payment: { paymentId: lost.status === 'unknown' ? lost.paymentId : '' },
      })
      expect(till.wx.calls.create).toBe(1)
    })

    it('P1: a create that is silent is unknown; the keeper looks it up', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const question = { orderNo: order.orderNo, userId: 'ann', channel: 'wx' }
      till.wx.fail('create', 'silent')
      expect(await till.payments.create(question)).toMatchObject({ status: 'unknown' })
      await till.round()
      expect(await till.payments.create(question)).toMatchObject({ status: 'created' })
      expect(till.wx.calls).toMatchObject({ create: 1, query: 1 })
    })

    it('P1: money that the look finds is applied', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const question = { orderNo: order.orderNo, userId: 'ann', channel: 'wx' }
      till.wx.fail('create', 'lost-answer')
      const lost = await till.payments.create(question)
      till.wx.pay(lost.status === 'unknown' ? lost.paymentId : '')
      await till.knex('seckill_payment').where({ order_no: order.orderNo }).update({ next_at: 1 })
      expect(await till.payments.create(question)).toEqual({ status: 'paid' })
      expect((await till.row(order.orderNo)).status).toBe('paid')
      await till.sound()
    })

    it('P1: money that the look finds, and that goes back, is not said to have paid', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const question = { orderNo: order.orderNo, userId: 'ann', channel: 'wx' }
      till.wx.fail('create', 'lost-answer')
      const lost = await till.payments.create(question)
      till.wx.pay(lost.status === 'unknown' ? lost.paymentId : '', { amountMinor: PRICE - 1 })
      await till.knex('seckill_payment').where({ order_no: order.orderNo }).update({ next_at: 1 })
      const again = await till.payments.create(question)
      expect(again).toEqual({ status: 'refused', reason: 'wrong-amount' })
      await till.round()
      expect((await till.row(order.orderNo)).status).toBe('confirmed')
      await till.sound()
    })

    it('P1: whoever has slept through half of his lease makes no payment; another makes it', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const question = { orderNo: order.orderNo, userId: 'ann', channel: 'wx' }
      const sleepy = changed<PaymentBook>(till.book, {
        async open(q) {
          const opened = await till.book.open(q)
          await sleep(q.leaseMs / 2 + 5)
          return opened
        },
      })
      const slow = till.another({ book: sleepy, callTimeoutMs: 10 })
      expect(await slow.create(question)).toMatchObject({ status: 'unknown' })
      expect(till.wx.calls.create).toBe(0)
      await till.knex('seckill_payment').where({ order_no: order.orderNo }).update({ next_at: 1 })
      expect(await till.payments.create(question)).toMatchObject({ status: 'created' })
    })

    it('P1: who holds the lease no more withdraws nothing', async () => {
      const till = await openTill(backend())
      const { orderNo } = await till.order('ann')
      const paymentId = newOrderNo()
      const asks = { orderNo, userId: 'ann', channel: 'wx', leaseMs: 1 }
      const first = await till.book.open({ ...asks, paymentId })
      if (first.status !== 'ask') throw new Error(first.status)
      await till.knex('seckill_payment').where({ order_no: orderNo }).update({ next_at: 1 })
      const second = await till.book.open({ ...asks, paymentId: newOrderNo() })
      if (second.status !== 'ask') throw new Error(second.status)
      await till.book.withdrawn(paymentId, first.tries)
      expect((await till.payment(paymentId)).status).toBe('created')
      await till.book.withdrawn(paymentId, second.tries)
      expect((await till.payment(paymentId)).status).toBe('closed')
    })

    it('P1: a payment that was withdrawn before its slow create arrived is looked after as before', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const wx = changed<PaymentProvider>(till.wx, {
        async create(request, o) {
          await till.round()
          expect((await till.payment(request.paymentId)).status).toBe('closed')
          return till.wx.create(request, o)
        },
      })
      const { orderNo } = order
      const slow = till.another({ providers: [wx] })
      const made = await slow.create({ orderNo, userId: 'ann', channel: 'wx' })
      if (made.status !== 'created') throw new Error(made.status)
      till.wx.pay(made.payment.paymentId) // its callback is lost
      await till.expire(orderNo)
      await till.round()
      expect((await till.row(orderNo)).status).toBe('paid')
      await till.sound()
    })

    it('P1: a payment that the channel says nothing of goes to a person after ten tries, and is asked about for ever', async () => {
      const till = await openTill(backend())
      const { orderNo } = await till.order('ann')
      till.wx.fail('create', 'lost-answer')
      till.wx.fail('query', 'unreached', 14)
      const lost = await till.payments.create({ orderNo, userId: 'ann', channel: 'wx' })
      const paymentId = lost.status === 'unknown' ? lost.paymentId : ''
      till.wx.pay(paymentId) // its callback is lost
      await till.round(14)
      expect((await till.payment(paymentId)).status).toBe('created')
      expect(till.alerts.filter((code) => code === 'payment-unknown')).toHaveLength(1)
      expect(await till.openTasks('payment-unknown')).toBe(1)
      await till.round()
      expect((await till.row(orderNo)).status).toBe('paid')
      expect(await till.openTasks('payment-unknown')).toBe(0)
      await till.sound()
    })

    it('P1: a refusal of the channel is final for that payment only', async () => {
      const till = await openTill(backend())
      const { orderNo } = await till.order('ann')
      const question = { orderNo, userId: 'ann', channel: 'wx' }
      till.wx.fail('create', 'refused')
      expect(await till.payments.create(question)).toMatchObject({ status: 'refused' })
      expect(await till.payments.create(question)).toMatchObject({ status: 'created' })
      expect(tally(await till.book.find([orderNo]))).toEqual({ closed: 1, created: 1 })
    })

    it('snapshot and find show the payments of an SKU in order of number', async () => {
      const till = await openTill(backend())
      const numbers: string[] = []
      for (const user of ['a', 'b', 'c']) {
        const order = await till.order(user)
        numbers.push(order.orderNo)
        await till.asked(order)
      }
      const seen: string[] = []
      for await (const payment of till.book.snapshot(till.ref)) seen.push(payment.orderNo)
      expect(seen).toEqual([...numbers].sort())
      expect(await till.book.find([newOrderNo()])).toEqual([])
      expect(await till.book.find(numbers)).toHaveLength(3)
    })
  })
}
