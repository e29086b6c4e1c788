import { FlashSaleError } from '../../core/errors.js'
import type { OrderRow } from '../../core/order-book.js'
import type {
  Capture,
  Captured,
  LatePayment,
  PaymentBook,
  PaymentMisfit,
  PaymentOpened,
  RefundDecided,
  RefundJob,
} from '../../core/payment.js'
import { UNPAID } from '../../core/unpaid.js'
import type { SimDatabase } from './sim-database.js'
import {
  BLANK,
  claimOf,
  isUnplaced,
  misfit,
  type Payment,
  type Refund,
} from './sim-payment-rows.js'

type Question = Parameters<PaymentBook['decideRefund']>[0]
type Placed = Extract<Captured, { status: 'applied' | 'refunding' | 'waiting' | 'anomaly' }>

/** Payments and refunds in the simulated database: what one transaction after the other does to them. */
export class SimMoney {
  readonly payments = new Map<string, Payment>()
  readonly refunds = new Map<string, Refund>()

  constructor(
    readonly db: SimDatabase,
    private readonly now: () => number,
    private readonly isOpen: () => boolean,
  ) {}

  put(payment: Payment): Payment {
    this.db.version++
    this.payments.set(payment.paymentId, payment)
    return payment
  }

  putRefund(refund: Refund): void {
    this.db.version++
    this.refunds.set(refund.refundId, refund)
  }

  find(of: (payment: Payment) => boolean): Payment | undefined {
    return [...this.payments.values()].find(of)
  }

  open(q: Parameters<PaymentBook['open']>[0]): PaymentOpened {
    const order = this.db.rows.get(q.orderNo)
    if (order?.userId !== q.userId) return { status: 'not-found' }
    if (order.status === 'paid') return { status: 'paid' }
    if (order.status === 'closed') return { status: 'closed', reason: order.reason ?? '' }
    if (order.payBy <= this.now()) return { status: 'too-late' }
    if (order.amountMinor === 0) return { status: 'free' }
    const { orderNo, userId, activityId, skuId, amountMinor, currency, payBy } = order
    const request = (paymentId: string) => {
      return { paymentId, orderNo, userId, amountMinor, currency, payBy }
    }
    const lease = { tries: 1, nextAt: this.now() + q.leaseMs }
    const { channel } = q
    const askKey = `${orderNo}|${channel}`
    const there = this.find((p) => p.askKey === askKey)
    if (!there) {
      const { paymentId } = q
      const about = { paymentId, channel, askKey, orderNo, userId, activityId, skuId }
      const ids = { ...about, channelPaymentId: paymentId }
      this.put({ ...BLANK, ...ids, status: 'created', amountMinor, currency, ...lease })
      return { status: 'ask', request: request(paymentId), again: false, tries: lease.tries }
    }
    const { paymentId, cashier } = there
    if (there.status !== 'created') return { status: 'paid' }
    if (cashier !== null) return { status: 'created', request: request(paymentId), cashier }
    // The same transaction again, after a lost answer to its COMMIT.
    if (paymentId === q.paymentId)
      return { status: 'ask', request: request(paymentId), again: false, tries: there.tries }
    if (there.nextAt > this.now()) return { status: 'asking', request: request(paymentId) }
    const tries = there.tries + 1
    this.put({ ...there, ...lease, tries })
    return { status: 'ask', request: request(paymentId), again: true, tries }
  }

  /** Places money, once for each channel and trade. */
  capture(c: Capture, o: Parameters<PaymentBook['capture']>[1]): Captured {
    const byTrade = this.find((p) => p.channel === c.channel && p.tradeNo === c.tradeNo)
    if (byTrade && !isUnplaced(byTrade)) return this.standing(byTrade, c)
    const byId = this.payments.get(c.paymentId)
    const foreign = byId !== undefined && byId.channel !== c.channel
    const read = byTrade ?? (byId && !foreign && byId.tradeNo === null ? byId : undefined)
    const orderNo = read?.orderNo || byId?.orderNo || c.order?.orderNo || ''
    const order = this.db.rows.get(orderNo) ?? null
    const claim = foreign ? 'wrong-channel' : c.confirmed ? claimOf(read) : null
    const place = claim ?? misfit(c, orderNo, order)

    const write = (values: Partial<Payment> & Pick<Payment, 'status'>): Payment => {
      const about = {
        paymentId: byId ? o.newPaymentId : c.paymentId,
        channel: c.channel,
        channelPaymentId: c.paymentId,
        orderNo,
        userId: order?.userId ?? c.userId ?? '',
        activityId: order?.activityId ?? c.order?.activityId ?? '',
        skuId: order?.skuId ?? c.order?.skuId ?? '',
        amountMinor: order?.amountMinor ?? c.amountMinor,
      }
      const { tradeNo, amountMinor: capturedMinor, currency } = c
      const money = { tradeNo, capturedMinor, currency }
      const tries = read?.status === values.status ? read.tries : 0
      const receivedAt = read?.receivedAt ?? this.now()
      return this.put({ ...BLANK, ...about, ...read, ...money, tries, receivedAt, ...values })
    }
    const refund = (reason: string): Placed => {
      const { amountMinor } = c
      const payment = write({
        ...{ status: 'refunding', reason, askKey: null },
        refundingMinor: amountMinor,
      })
      // It bears the payment's own id: so there is one of it.
      this.insertRefund(payment, { refundId: payment.paymentId, amountMinor, reason, made: false })
      return { status: 'refunding', payment, reason, fresh: true }
    }
    const soon = this.now() + 1_000
    if (place !== null) {
      if (c.confirmed) return refund(place)
      const fresh = read?.status !== 'anomaly' || read.reason !== place
      const payment = write({ status: 'anomaly', reason: place, askKey: null, nextAt: soon })
      return { status: 'anomaly', payment, why: place, fresh }
    }
    if (!order) {
      const nextAt = read?.status === 'received' ? read.nextAt : soon
      return { status: 'waiting', payment: write({ status: 'received', reason: null, nextAt }) }
    }
    if (order.status === 'paid') return refund('paid-already')
    if (order.status === 'closed' && !this.mayReserve(order, o.latePayment))
      return refund('order-closed')
    const late = order.status === 'closed'
    const number = late && this.db.rules.lateIsNew ? o.newOrderNo : order.orderNo
    const paid = this.db.pay({ ...order, orderNo: number }, late ? this.now() : order.payBy)
    const payment = write({ status: 'paid', reason: null, paidOrderNo: number })
    return { status: 'applied', payment, order: paid, fresh: true, late }
  }

  /** Money for an order that its deadline closed buys a new one if there are units. */
  private mayReserve(closed: OrderRow, latePayment: LatePayment): boolean {
    if (closed.reason !== UNPAID || latePayment === 'refund') return false
    const holder = this.db.live().some((row) => row.userId === closed.userId)
    return this.isOpen() && !holder && this.db.available >= closed.quantity
  }

  /** The same money again: it stays where it is. */
  private standing(payment: Payment, c: Capture): Captured {
    if (c.amountMinor !== payment.capturedMinor || c.currency !== payment.currency)
      return { status: 'anomaly', payment, why: 'contradiction', fresh: true }
    const reason = payment.reason ?? ''
    if (payment.status === 'anomaly')
      return { status: 'anomaly', payment, why: reason as PaymentMisfit, fresh: false }
    const order = payment.status === 'paid' && this.db.rows.get(payment.paidOrderNo as string)
    if (!order) return { status: 'refunding', payment, reason, fresh: false }
    const late = payment.paidOrderNo !== payment.orderNo
    return { status: 'applied', payment, order, fresh: false, late }
  }

  decideRefund(q: Question): RefundDecided {
    const { refundId, amountMinor, reason, made } = q
    const done = this.refunds.get(refundId)
    if (done) {
      if (done.paymentId !== q.paymentId || done.amountMinor !== amountMinor)
        throw new FlashSaleError('BAD_INPUT', 'another refund')
      if (done.state !== 'parked') return { status: done.state, refundId, fresh: false }
      this.putRefund({ ...done, state: 'refunding', tries: 1, nextAt: this.now() })
      return { status: 'refunding', refundId, fresh: true }
    }
    const payment = this.payments.get(q.paymentId)
    if (!payment) return { status: 'not-found' }
    const placed = payment.status === 'paid' || payment.status === 'anomaly'
    const { refundsAddUp } = this.db.rules
    const gone = refundsAddUp ? payment.refundingMinor : payment.refundedMinor
    const leftMinor = placed ? payment.capturedMinor - gone : 0
    if (amountMinor > leftMinor) return { status: 'refused', leftMinor }
    const whole = amountMinor === leftMinor
    const refundedMinor = payment.refundedMinor + (made ? amountMinor : 0)
    const over = refundedMinor === payment.capturedMinor ? 'refunded' : 'refunding'
    const status = whole ? over : payment.status
    const refundingMinor = payment.refundingMinor + amountMinor
    this.put({
      ...payment,
      status,
      refundingMinor,
      refundedMinor,
      ...(whole ? { reason, askKey: null } : {}),
    })
    this.insertRefund(payment, q)
    if (whole && payment.paidOrderNo !== null) this.db.closeRefunded(payment.paidOrderNo)
    return { status: made ? 'refunded' : 'refunding', refundId, fresh: true }
  }

  private insertRefund(payment: Payment, q: Omit<Question, 'paymentId'>): void {
    const { paymentId, channelPaymentId, channel, currency } = payment
    const { refundId, amountMinor, reason, made } = q
    const tradeNo = payment.tradeNo as string
    const about = { refundId, paymentId, channel, tradeNo, amountMinor, currency, reason }
    const state = made ? 'refunded' : 'refunding'
    this.putRefund({ ...about, channelPaymentId, state, tries: 0, nextAt: this.now() })
  }

  endRefund(job: RefundJob, outcome: Parameters<PaymentBook['endRefund']>[1]): boolean {
    const refund = this.refunds.get(job.refundId)
    if (!refund || refund.state === 'refunded') return false
    if (outcome.status === 'refunded') {
      this.putRefund({ ...refund, state: 'refunded' })
      const payment = this.payments.get(job.paymentId) as Payment
      const refundedMinor = payment.refundedMinor + job.amountMinor
      const over = payment.status === 'refunding' && refundedMinor === payment.capturedMinor
      this.put({ ...payment, refundedMinor, status: over ? 'refunded' : payment.status })
      return true
    }
    if (refund.state !== 'refunding' || refund.tries !== job.tries) return false
    if (outcome.status === 'parked') this.putRefund({ ...refund, state: 'parked' })
    else {
      // One that did not count stays at two at least, so that the next begins by looking.
      const tries = outcome.counted ? job.tries : Math.max(1, job.tries - 1)
      this.putRefund({ ...refund, tries, nextAt: this.now() + outcome.afterMs })
    }
    return true
  }
}
