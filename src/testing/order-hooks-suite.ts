import type { OrderBook, OrderRow } from '../core/order-book.js'
import type { Reservation } from '../core/types.js'
import { type Check, type ConformanceCase, casesOf } from './conformance.js'
import { HooksBench } from './hooks/bench.js'
import { closing } from './hooks/closing.js'
import { confirming } from './hooks/confirming.js'
import { refusing } from './hooks/refusing.js'

/** An order as hooks are told of it. */
export type OrderToBook = Reservation & Pick<OrderRow, 'amountMinor' | 'currency' | 'payBy'>

/** `OrderHooks` of `flash-sale-kit/knex`, where `Trx` is a knex transaction. */
export interface HooksLike<Trx> {
  onConfirm?(
    trx: Trx,
    orders: readonly OrderToBook[],
    // biome-ignore lint/suspicious/noConfusingVoidType: a hook without vetoes returns nothing
  ): Promise<void | readonly { readonly orderNo: string; readonly veto: string }[]>
  onClose?(trx: Trx, orders: readonly OrderToBook[], reason: string): Promise<void>
}

/** What buyers of the host send along, and what else his hooks look at. */
export type OrderSketch = Partial<Pick<Reservation, 'userId' | 'quantity' | 'payload'>>

/** A host's hooks over his own tables, in a database with no other orders. */
export interface OrderHooksUnderTest<Trx> {
  readonly hooks: HooksLike<Trx>
  /**
   * A book of the library on the host's database, on a pool of ONE connection: with it a hook that asks for another waits
   * for ever, as it would on a busy day. Pass `limits` on.
   */
  book(hooks: HooksLike<Trx>, limits: { readonly hookTimeoutMs?: number }): OrderBook
  /** The host's own orders among these numbers that stand, each as often as it is there; with its amount, if it has one. */
  standing(
    orderNos: readonly string[],
  ): Promise<readonly { readonly orderNo: string; readonly amountMinor?: number }[]>
  /** An order that the hooks take. Left out: any. */
  readonly good?: OrderSketch
  /** Feature `throws`: an order over which the hooks throw. */
  readonly poison?: OrderSketch
  /** Feature `vetoes`: an order that the hooks refuse. */
  readonly refused?: OrderSketch
  close(): Promise<void>
}

/**
 * - `closes`: `onClose` takes the host's own order back.
 * - `throws`: there are orders over which the hooks throw. `vetoes`: there are orders that they refuse.
 */
export type OrderHooksFeature = 'closes' | 'throws' | 'vetoes'

export type OrderHooksCheck = Check<HooksBench, OrderHooksFeature>

const CHECKS: readonly OrderHooksCheck[] = [...confirming, ...refusing, ...closing]

/**
 * Runs a host's order hooks as the library runs them: in its transaction, again after it was undone, in halves beside an
 * order that nobody can take.
 *
 * @param features what the hooks do beyond writing orders; cases that need another are left out
 */
export function orderHooksSuite<Trx>(
  features: readonly OrderHooksFeature[],
): readonly ConformanceCase<OrderHooksUnderTest<Trx>>[] {
  return casesOf(
    'orderHooksSuite',
    CHECKS,
    features,
    // The bench only passes transactions on, so it need not know what they are.
    (under: OrderHooksUnderTest<Trx>) => new HooksBench(under as OrderHooksUnderTest<unknown>),
  )
}
