import type { OrderBook } from '../core/order-book.js'
import type { PaymentBook } from '../core/payment.js'
import type { ActivityControl } from '../core/ports.js'
import { type Check, type ConformanceCase, casesOf } from './conformance.js'
import type { OrderSketch, OrderToBook } from './order-hooks-suite.js'
import { PaidBench } from './paid/bench.js'
import { paying } from './paid/paying.js'

/** What hooks are told of the money. */
export interface PaymentToBook {
  readonly paymentId: string
  readonly channel: string
  readonly tradeNo: string
  readonly insteadOf: string | null
}

/** `PaymentHooks` of `flash-sale-kit/knex`, where `Trx` is a knex transaction. */
export interface PaymentHooksLike<Trx> {
  onPaid?(trx: Trx, order: OrderToBook, payment: PaymentToBook): Promise<void>
  onRefunded?(trx: Trx, order: OrderToBook, refundId: string): Promise<void>
}

/** The library's adapters on one database. */
export interface PaymentBooks {
  readonly orders: OrderBook
  readonly payments: PaymentBook
  readonly control: ActivityControl
}

/** A host's payment hooks over his own tables, in a database with no other orders. */
export interface PaymentHooksUnderTest<Trx> {
  readonly hooks: PaymentHooksLike<Trx>
  /** The library's adapters on the host's database and a pool of ONE connection, with his order hooks and these. */
  books(hooks: PaymentHooksLike<Trx>): PaymentBooks
  /** How often what `onPaid` begins stands for an order: a shipment, a message for it. */
  begun(orderNo: string): Promise<number>
  /** An order that the host takes. Left out: any. */
  readonly good?: OrderSketch
  close(): Promise<void>
}

/** `refunds`: `onRefunded` takes back what `onPaid` began. */
export type PaymentHooksFeature = 'refunds'

export type PaymentHooksCheck = Check<PaidBench, PaymentHooksFeature>

/**
 * Runs a host's payment hooks as the library does: in its transaction, again after it was undone, for money that comes
 * twice or too late.
 *
 * @param features cases that need another are left out
 */
export function paymentHooksSuite<Trx>(
  features: readonly PaymentHooksFeature[],
): readonly ConformanceCase<PaymentHooksUnderTest<Trx>>[] {
  return casesOf(
    'paymentHooksSuite',
    paying,
    features,
    // The bench only passes transactions on, so it need not know what they are.
    (under: PaymentHooksUnderTest<Trx>) => new PaidBench(under as PaymentHooksUnderTest<unknown>),
  )
}
