import type { PaymentNotice, PaymentProvider } from '../core/payment.js'
import type { Json } from '../core/types.js'
import { type Check, type ConformanceCase, casesOf } from './conformance.js'
import { PaymentBench } from './payment/bench.js'
import { callbacks } from './payment/callbacks.js'
import { faults } from './payment/faults.js'
import { paying } from './payment/paying.js'
import { refunding } from './payment/refunding.js'

/** A callback as it comes over the wire. */
export interface RawCallback {
  readonly headers: { readonly [name: string]: string }
  readonly body: string
}

/**
 * How a call at the channel goes wrong. `unreached`: the channel never hears of it. `server-error`: it answers with a
 * 5xx and does nothing. `lost-answer`: it does it, and the connection breaks before the answer. `silent`: it does it,
 * and never answers.
 */
export type ChannelFault = 'unreached' | 'server-error' | 'lost-answer' | 'silent'

export type ChannelMethod = 'create' | 'query' | 'close' | 'refund' | 'queryRefund'

/** An adapter of a channel, at the channel's sandbox or a stub of it, with what the cases need to know and do. */
export interface PaymentProviderUnderTest {
  readonly provider: PaymentProvider
  /** Currencies the channel takes (ISO 4217): the cases are run in each, and one that nobody has must be refused. */
  readonly currencies: readonly string[]
  /** How long a call may take, and a refund that is `pending` until it is made, ms. */
  readonly patienceMs: number
  /** The buyer pays with what his page was given. False when the channel does not let him. */
  pay(paymentId: string, cashier: Json): Promise<boolean>
  /** A feature of the fault's name: the next call of this kind goes wrong so. */
  fail?(method: ChannelMethod, fault: ChannelFault): void
  /** Feature `callbacks`: what the channel sends once it has the money. */
  callbackOf?(paymentId: string): Promise<RawCallback>
  /** Feature `callbacks`: the same, as somebody without the key can send it. */
  unsigned?(callback: RawCallback): RawCallback
  /** Feature `callbacks`: the host's own reading and checking; it may throw for what is not to be read. */
  read?(callback: RawCallback): PaymentNotice | Promise<PaymentNotice>
  close(): Promise<void>
}

export type PaymentProviderFeature = ChannelFault | 'callbacks'

export type PaymentProviderCheck = Check<PaymentBench, PaymentProviderFeature>

const CHECKS: readonly PaymentProviderCheck[] = [...paying, ...refunding, ...faults, ...callbacks]

/**
 * The contract of the {@link PaymentProvider} port, and of the callbacks beside it, as cases for any test runner.
 *
 * @param features what can be made to happen at the channel; cases that need another are left out
 */
export function paymentProviderSuite(
  features: readonly PaymentProviderFeature[],
): readonly ConformanceCase<PaymentProviderUnderTest>[] {
  return casesOf(
    'paymentProviderSuite',
    CHECKS,
    features,
    (under: PaymentProviderUnderTest) => new PaymentBench(under),
  )
}
