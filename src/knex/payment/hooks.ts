import type { Knex } from 'knex'
import type { Order } from '../order/hooks.js'

/** What a hook is told of the money. */
export interface PaymentOfOrder {
  readonly paymentId: string
  readonly channel: string
  readonly tradeNo: string
  /** The closed order that the money was meant for, when it came late and bought this new one. */
  readonly insteadOf: string | null
}

/**
 * The host's part of a transaction, under the rules of `OrderHooks`: through `trx` only, and it may run again. What is
 * written here is written once for each order: the place for a message that starts the fulfilment.
 */
export interface PaymentHooks {
  /** An order becomes PAID. A throw keeps the money as received, to be tried again, with a manual task. */
  onPaid?(trx: Knex.Transaction, order: Order, payment: PaymentOfOrder): Promise<void>
  /** A PAID order is closed, because all of its money goes back. A throw undoes the decision and reaches the caller. */
  onRefunded?(trx: Knex.Transaction, order: Order, refundId: string): Promise<void>
}
