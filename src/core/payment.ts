import type { OrderRow } from './order-book.js'
import type { PaymentRecords, PaymentRow } from './reconcile.js'
import type { Json, SkuRef } from './types.js'

/** What a channel is asked to collect. Amounts are whole minor units of `currency` (ISO 4217). */
export interface PaymentRequest {
  /** The merchant's number at the channel. The channel knows at most one payment of a number. */
  readonly paymentId: string
  readonly orderNo: string
  readonly userId: string
  readonly amountMinor: number
  readonly currency: string
  /** Deadline, epoch ms by the database's clock: let the channel refuse the buyer after it. */
  readonly payBy: number
}

/** What a channel is asked to give back. The channel makes at most one refund of a `refundId`. */
export interface RefundRequest {
  readonly refundId: string
  /** The merchant's number of the payment at the channel. */
  readonly paymentId: string
  /** The channel's own id of the payment it received. */
  readonly tradeNo: string
  readonly amountMinor: number
  readonly currency: string
  readonly reason: string
}

/** A channel has the buyer's money. */
export interface ChannelPaid {
  readonly status: 'paid'
  readonly tradeNo: string
  readonly amountMinor: number
  readonly currency: string
}

/** What a channel says of a refund: paid out, accepted and on its way, or never to be made. */
export type ChannelRefund =
  | { readonly status: 'refunded' | 'pending' }
  | { readonly status: 'refused'; readonly reason: string }

/** A call's deadline: past it the outcome counts as unknown, whatever the call still does. */
export interface ChannelCall {
  readonly signal: AbortSignal
}

/**
 * One payment channel. What it resolves with is definite; a throw, or no answer in time, is an unknown outcome, which is
 * looked up before anything is asked a second time. Never map a timeout or a 5xx to a definite answer.
 */
export interface PaymentProvider {
  readonly channel: string
  /** The same request again gives the same payment. `cashier` is what the buyer's page needs to pay. */
  create(
    request: PaymentRequest,
    o: ChannelCall,
  ): Promise<
    | { readonly status: 'created'; readonly cashier: Json }
    | { readonly status: 'refused'; readonly reason: string }
  >
  query(
    paymentId: string,
    o: ChannelCall,
  ): Promise<
    | { readonly status: 'none' | 'closed' }
    | { readonly status: 'open'; readonly cashier: Json }
    | ChannelPaid
  >
  /** Lets nobody pay it any more. `closed` also when it was closed, or never made; `paid` when money came first. */
  close(paymentId: string, o: ChannelCall): Promise<{ readonly status: 'closed' } | ChannelPaid>
  refund(request: RefundRequest, o: ChannelCall): Promise<ChannelRefund>
  queryRefund(
    request: RefundRequest,
    o: ChannelCall,
  ): Promise<ChannelRefund | { readonly status: 'none' }>
}

/** A number of an order, and whose sale it belongs to. */
export interface OrderRef extends SkuRef {
  readonly orderNo: string
}

/** A channel's callback, as the host's adapter read it. */
export interface PaymentNotice {
  readonly channel: string
  /** The merchant's number: from `create`, or one of the host's own. */
  readonly paymentId: string
  /** The channel's own id of the payment it received; one payment received has one. */
  readonly tradeNo: string
  /** Whole minor units. Anything else is stored as an anomaly, never converted. */
  readonly amountMinor: number
  readonly currency: string
  /** Whether the adapter found the channel's signature good. Never applied when false. */
  readonly verified: boolean
  /** The buyer, when the channel hands back whom the payment was made for; he must be the order's owner. */
  readonly userId?: string
  /** The order, for a payment that was not made by `create`; needs `userId`. */
  readonly order?: OrderRef
}

/** A payment with what its channel needs. */
export interface StoredPayment extends PaymentRow {
  /**
   * The merchant's number under which the channel knows it. Its own id, but for further money under a number that another row
   * has: of the same payment, or of another channel.
   */
  readonly channelPaymentId: string
  readonly userId: string
  /** The channel's id of what it received; null while nothing was. */
  readonly tradeNo: string | null
  readonly cashier: Json | null
}

/** Money that a channel says it has, ready to be placed. */
export interface Capture {
  readonly channel: string
  /** The merchant's number, as the channel says it. */
  readonly paymentId: string
  readonly tradeNo: string
  readonly amountMinor: number
  readonly currency: string
  readonly userId: string | null
  readonly order: OrderRef | null
  /** Said by the channel when it was asked, not only by a callback. Then money that fits nothing goes back by itself. */
  readonly confirmed: boolean
}

/** What to do with the money for an order closed as `unpaid`: take units for a new order if there are any, or not. */
export type LatePayment = 'reserve-or-refund' | 'refund'

/** Why money was not taken for an order. */
export type PaymentMisfit =
  | 'unknown-payment'
  | 'wrong-channel'
  | 'wrong-order'
  | 'wrong-owner'
  | 'wrong-currency'
  | 'wrong-amount'
  /** The order's row was closed without a price, so there is nothing to compare the amount with. */
  | 'no-price'
  /** The same trade was reported before, with another amount or currency. */
  | 'contradiction'

/** Where money was placed. `fresh`: by this very call. */
export type Captured =
  | {
      readonly status: 'applied'
      readonly payment: StoredPayment
      readonly order: OrderRow
      readonly fresh: boolean
      /** The order was closed; the money bought a new one. */
      readonly late: boolean
    }
  | {
      readonly status: 'refunding'
      readonly payment: StoredPayment
      readonly reason: string
      readonly fresh: boolean
    }
  /** Kept; its order has no row yet, or the host's hook threw. */
  | { readonly status: 'waiting'; readonly payment: StoredPayment }
  /** `fresh`: it was not known as this anomaly before. */
  | {
      readonly status: 'anomaly'
      readonly payment: StoredPayment
      readonly why: PaymentMisfit
      readonly fresh: boolean
    }

/** What a payment may be made for, or why none may. */
export type PaymentOpened =
  /** The channel is to be asked; `again`: it may have been asked before, so look first. `tries` is the lease's fence. */
  | {
      readonly status: 'ask'
      readonly request: PaymentRequest
      readonly again: boolean
      readonly tries: number
    }
  | { readonly status: 'created'; readonly request: PaymentRequest; readonly cashier: Json }
  /** Somebody else is asking the channel now. */
  | { readonly status: 'asking'; readonly request: PaymentRequest }
  | { readonly status: 'not-found' | 'too-late' | 'paid' | 'free' }
  | { readonly status: 'closed'; readonly reason: string }

/** A payment that waits for somebody to look after it; leased to the caller. `tries` is the lease's fence. */
export interface DuePayment {
  readonly payment: StoredPayment
  readonly tries: number
  /** Null while its order has no row. */
  readonly order: OrderRow | null
  /** The order may still be paid. */
  readonly payable: boolean
  /** Since the money came, ms by the database's clock; 0 before. */
  readonly heldMs: number
}

/** A refund to be made at the channel; leased to the caller. `tries` counts takers, this one included. */
export interface RefundJob extends RefundRequest {
  /** The payment's id here. */
  readonly paymentId: string
  /** The merchant's number of it at the channel, for the channel to be asked with. */
  readonly channelPaymentId: string
  readonly channel: string
  readonly tries: number
}

export type RefundState = 'refunding' | 'refunded' | 'parked'

/** What was decided of a refund. */
export type RefundDecided =
  | { readonly status: RefundState; readonly refundId: string; readonly fresh: boolean }
  | { readonly status: 'not-found' }
  /** More than is left of the captured amount. */
  | { readonly status: 'refused'; readonly leftMinor: number }

/** Payments and refunds, durable, beside the orders they pay. Leases and deadlines are the database's. */
export interface PaymentBook extends PaymentRecords {
  /** Writes the payment of an order and a channel before the channel hears of it; the same one each time. */
  open(o: {
    readonly orderNo: string
    readonly userId: string
    readonly channel: string
    /** Its id, if there is none yet. */
    readonly paymentId: string
    readonly leaseMs: number
  }): Promise<PaymentOpened>
  /** The channel has it and waits for the buyer; also one that was taken for withdrawn. */
  opened(paymentId: string, cashier: Json): Promise<void>
  /** Nobody can pay it at the channel any more, and nobody did. With `tries`: only while the lease is the caller's. */
  withdrawn(paymentId: string, tries?: number): Promise<void>
  /**
   * Places money: pays the order, buys a new one, decides its refund, or keeps it. One transaction, once for each channel and
   * trade number.
   */
  capture(
    capture: Capture,
    o: {
      readonly latePayment: LatePayment
      /** Number of the order to be inserted should the money come late. */
      readonly newOrderNo: string
      /** Id of the row to be inserted should this payment hold other money already. */
      readonly newPaymentId: string
    },
  ): Promise<Captured>
  /** The channel has not got an anomaly's money, and nobody can pay it any more. */
  unfounded(paymentId: string): Promise<void>
  /**
   * Decides a refund, so that the sum of all decided never exceeds what was captured. `made`: the channel has taken the
   * money back already. The whole amount closes the order it paid, as `refunded`.
   */
  decideRefund(o: {
    readonly refundId: string
    readonly paymentId: string
    readonly amountMinor: number
    readonly reason: string
    readonly made: boolean
  }): Promise<RefundDecided>
  findPayment(paymentId: string): Promise<StoredPayment | null>
  /** By the channel's own id. */
  findTrade(channel: string, tradeNo: string): Promise<StoredPayment | null>
  /** Payments whose time has come: unknown to be at the channel, waiting for their order, anomalies. */
  takePayments(o: {
    readonly limit: number
    readonly leaseMs: number
  }): Promise<readonly DuePayment[]>
  /** To be looked at again after `afterMs`; null: no more. */
  putOff(paymentId: string, tries: number, afterMs: number | null): Promise<void>
  /** Looks after the open payments and the anomalies of these orders at once. */
  hasten(orderNos: readonly string[]): Promise<void>
  /** Refunds whose time has come, or just this one. */
  takeRefunds(o: {
    readonly limit: number
    readonly leaseMs: number
    readonly refundId?: string
  }): Promise<readonly RefundJob[]>
  /** `refunded` is a fact whoever says so; the others count only while the lease is the caller's. Returns whether it counted. */
  endRefund(
    job: RefundJob,
    outcome:
      | { readonly status: 'refunded' }
      | { readonly status: 'again'; readonly afterMs: number; readonly counted: boolean }
      | { readonly status: 'parked'; readonly reason: string },
  ): Promise<boolean>
  /**
   * Unpaid orders past their deadline, the longest overdue first, with their payments that are not over, anomalies among them.
   * `after`: those behind this one, so that what cannot be closed does not stand before the others.
   */
  overdue(o: {
    readonly limit: number
    readonly after?: Pick<OverdueOrder, 'payBy' | 'orderNo'> | undefined
  }): Promise<readonly OverdueOrder[]>
}

export interface OverdueOrder {
  readonly orderNo: string
  readonly payBy: number
  readonly lateMs: number
  readonly payments: readonly StoredPayment[]
}
