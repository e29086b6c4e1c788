import type { RefundDecided } from '../core/payment.js'
import type { PaymentRecords } from '../core/reconcile.js'
import type { RefundQuestion } from '../payment/refunds.js'
import type { OrderSagaParts } from './order-saga.js'

/**
 * The `refund` of {@link orderSaga} with `Payments` and their book: all that is left of the payment that paid the order.
 * Money that came for an order without paying it is the payment keeper's to give back.
 */
export function refundPaid(o: {
  readonly payments: { refund(question: RefundQuestion): Promise<RefundDecided> }
  readonly book: Pick<PaymentRecords, 'find'>
}): OrderSagaParts['refund'] {
  return async (orderNo, refundId) => {
    const all = await o.book.find([orderNo])
    const payment = all.find((one) => one.paidOrderNo === orderNo && one.status === 'paid')
    if (!payment) return // nothing was paid, or all of it is decided already
    const { paymentId } = payment
    const amountMinor = payment.capturedMinor - payment.refundingMinor
    const decided = await o.payments.refund({ paymentId, refundId, amountMinor, reason: 'saga' })
    // Another refund was decided in between: look again, for what it has left.
    if (decided.status === 'refused') throw new Error(`only ${decided.leftMinor} are left`)
  }
}
