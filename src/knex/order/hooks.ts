import type { Knex } from 'knex'
import { text } from '../../core/check.js'
import type { Reservation } from '../../core/types.js'

/** What a hook is told of an order: a reservation with its price, from the terms of its version, never from a request. */
export interface Order extends Reservation {
  readonly amountMinor: number
  readonly currency: string
  /** Deadline of payment, epoch ms by the database's clock. */
  readonly payBy: number
}

/** An order the host refuses; it is closed with the reason `veto:` and these words (1 to 200 characters). */
export interface Veto {
  readonly orderNo: string
  readonly veto: string
}

/**
 * The host's part of a transaction: its own order table, in the same commit. A hook touches the database only, through
 * `trx`, and may run again for the same orders, because whatever interrupts a transaction undoes and repeats all of it.
 * It is run before the stock row is updated, so that it does not lengthen the wait for that row.
 */
export interface OrderHooks {
  /**
   * Orders about to be confirmed. Return vetoes to refuse some. A throw that is no trouble of the database is traced to
   * its order, which is tried three times, then closed as `host-error` with a manual task.
   */
  onConfirm?(
    trx: Knex.Transaction,
    orders: readonly Order[],
    // biome-ignore lint/suspicious/noConfusingVoidType: a hook without vetoes returns nothing
  ): Promise<void | readonly Veto[]>
  /**
   * Confirmed orders about to be closed, not those that never were confirmed. A throw is traced to its order, which
   * after three tries stays confirmed and becomes a manual task.
   */
  onClose?(trx: Knex.Transaction, orders: readonly Order[], reason: string): Promise<void>
}

/** Thrown to undo the transaction in which the host refused orders. */
export class Vetoed extends Error {
  constructor(readonly reasons: ReadonlyMap<string, string>) {
    super('vetoed')
  }
}

/** Reads what a hook returned; anything but vetoes of these very orders is the hook's mistake, and throws. */
export function vetoReasons(
  returned: unknown,
  orders: readonly Order[],
): ReadonlyMap<string, string> {
  const reasons = new Map<string, string>()
  if (returned === undefined || returned === null) return reasons
  if (!Array.isArray(returned))
    throw new TypeError('onConfirm must return nothing or a list of vetoes')
  const offered = new Set(orders.map((order) => order.orderNo))
  for (const { orderNo, veto } of returned as readonly Veto[]) {
    if (!offered.has(orderNo))
      throw new TypeError('onConfirm vetoed an order it was not asked about')
    reasons.set(orderNo, `veto:${text(veto, 'veto', 200)}`)
  }
  return reasons
}
