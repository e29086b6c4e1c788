import type { OrderRow } from '../../core/order-book.js'
import type {
  Capture,
  PaymentMisfit,
  RefundJob,
  RefundState,
  StoredPayment,
} from '../../core/payment.js'
import { NO_CURRENCY } from '../../core/standing.js'

/** Later than any instant: nobody looks again by himself. */
export const NEVER = Number.MAX_SAFE_INTEGER

export interface Payment extends StoredPayment {
  /** Why it is an anomaly, or goes back. */
  readonly reason: string | null
  /** Set while no other may be made of the same order and channel. */
  readonly askKey: string | null
  readonly tries: number
  readonly nextAt: number
  readonly receivedAt: number | null
}

export interface Refund extends RefundJob {
  readonly state: RefundState
  readonly nextAt: number
}

export const BLANK = {
  reason: null,
  askKey: null,
  tradeNo: null,
  capturedMinor: 0,
  refundingMinor: 0,
  refundedMinor: 0,
  paidOrderNo: null,
  cashier: null,
  receivedAt: null,
  nextAt: 0,
}

/** The channel is still to say whether it has the money. */
export const isAskable = ({ status, refundingMinor, capturedMinor }: Payment) =>
  status === 'created' || (status === 'anomaly' && refundingMinor === 0 && capturedMinor > 0)

export const isUnplaced = ({ status, refundingMinor }: Payment) =>
  (status === 'received' || status === 'anomaly') && refundingMinor === 0

/** The channel can set an amount right. Whose order it is only the callback said. */
export function claimOf(read: Payment | undefined): PaymentMisfit | null {
  if (read?.status !== 'anomaly' || /^wrong-(amount|currency)$/.test(read.reason ?? '')) return null
  return read.reason as PaymentMisfit
}

/** Why money does not fit; null if it does, or its order has no row yet. */
export function misfit(c: Capture, orderNo: string, order: OrderRow | null): PaymentMisfit | null {
  if (orderNo === '') return 'unknown-payment'
  if (!order) return null
  if (c.order && c.order.orderNo !== order.orderNo) return 'wrong-order'
  if (c.userId !== null && c.userId !== order.userId) return 'wrong-owner'
  if (order.currency === NO_CURRENCY) return 'no-price'
  if (c.currency !== order.currency) return 'wrong-currency'
  return c.amountMinor === order.amountMinor ? null : 'wrong-amount'
}
