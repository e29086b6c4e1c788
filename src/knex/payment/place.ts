import type { OrderRow } from '../../core/order-book.js'
import type { Capture, LatePayment, PaymentMisfit } from '../../core/payment.js'
import { NO_CURRENCY } from '../../core/standing.js'
import { UNPAID } from '../../core/unpaid.js'

/** Where money belongs, as far as order and amount can say. */
export type Place =
  | { readonly kind: 'pay' | 'reserve'; readonly order: OrderRow }
  | { readonly kind: 'refund' | 'anomaly'; readonly reason: string }
  | { readonly kind: 'wait' }

/**
 * Decides what becomes of a capture. What does not fit is never applied: on a callback's word alone it is kept as an
 * anomaly, and goes back once the channel itself has confirmed that it has the money.
 */
export function place(
  capture: Capture,
  known: {
    /** The order the money is for, as a payment of ours or the notice names it; '' if neither does. */
    readonly orderNo: string
    readonly order: OrderRow | null
    /** What a callback said of this very money that the channel's word on amount and currency cannot undo. */
    readonly claim: PaymentMisfit | null
  },
  latePayment: LatePayment,
): Place {
  const misfit = (reason: PaymentMisfit): Place => ({
    kind: capture.confirmed ? 'refund' : 'anomaly',
    reason,
  })
  const { order } = known
  if (known.claim !== null) return misfit(known.claim)
  if (known.orderNo === '') return misfit('unknown-payment')
  if (!order) return { kind: 'wait' }
  const { order: named } = capture
  if (named && named.orderNo !== order.orderNo) return misfit('wrong-order')
  if (named && (named.activityId !== order.activityId || named.skuId !== order.skuId))
    return misfit('wrong-order')
  if (capture.userId !== null && capture.userId !== order.userId) return misfit('wrong-owner')
  if (order.currency === NO_CURRENCY) return misfit('no-price')
  if (capture.currency !== order.currency) return misfit('wrong-currency')
  if (capture.amountMinor !== order.amountMinor) return misfit('wrong-amount')
  switch (order.status) {
    case 'confirmed':
      return { kind: 'pay', order }
    case 'paid':
      return { kind: 'refund', reason: 'paid-already' }
    case 'closed':
      return order.reason === UNPAID && latePayment === 'reserve-or-refund'
        ? { kind: 'reserve', order }
        : { kind: 'refund', reason: 'order-closed' }
    default:
      return order.status satisfies never
  }
}
