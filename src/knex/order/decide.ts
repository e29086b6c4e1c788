import type { OrderRow } from '../../core/order-book.js'
import { NO_CURRENCY } from '../../core/standing.js'
import type { Reservation } from '../../core/types.js'
import type { Order } from './hooks.js'
import { liveKeyOf, type OnePer, skuKeyOf } from './rows.js'
import type { Stock } from './stock-rows.js'

/** A row that stands already: by this number, or by this buyer. */
export type Standing = Pick<OrderRow, 'orderNo' | 'userId' | 'status' | 'reason'>

/** What the database said at the beginning of the transaction. */
export interface Situation {
  readonly now: number
  readonly stocks: ReadonlyMap<string, Stock>
  readonly byNumber: ReadonlyMap<string, Standing>
  /** Live key → number of the order that holds it. */
  readonly holders: ReadonlyMap<string, string>
  /** Activities in which nothing may be bought now. */
  readonly stopped: ReadonlySet<string>
}

/** Why a reservation gets no units; becomes the reason of its CLOSED row. */
export type Refused =
  | { readonly why: 'already-bought'; readonly holder: string }
  | { readonly why: 'sold-out'; readonly available: number }
  | { readonly why: 'stopped' | 'version-mismatch' | 'no-stock-row' | 'over-limit' }

export type Decision =
  | { readonly kind: 'standing'; readonly standing: Standing }
  | {
      readonly kind: 'take'
      readonly order: Order
      readonly stock: Stock
      readonly liveKey: string
    }
  | { readonly kind: 'close'; readonly order: Order; readonly reason: string }
  | { readonly kind: 'refuse'; readonly order: Order; readonly refused: Refused }

/**
 * Decides what becomes of each reservation, in the order given: a number that stands stays as it is, one that must be
 * closed is closed, the others take units as long as they fit. An order too big for what is left does not keep smaller
 * ones behind it from the last units.
 */
export function decide(
  reservations: readonly Reservation[],
  situation: Situation,
  o: { readonly onePer: OnePer; readonly toClose: ReadonlyMap<string, string> },
): readonly Decision[] {
  const holders = new Map(situation.holders)
  const left = new Map([...situation.stocks].map(([key, stock]) => [key, stock.available]))

  return reservations.map((reservation): Decision => {
    const standing = situation.byNumber.get(reservation.orderNo)
    if (standing) return { kind: 'standing', standing }
    const key = skuKeyOf(reservation)
    const stock = situation.stocks.get(key)
    const order = priced(reservation, stock, situation.now)
    const reason = o.toClose.get(reservation.orderNo)
    if (reason !== undefined) return { kind: 'close', order, reason }
    const refuse = (refused: Refused): Decision => ({ kind: 'refuse', order, refused })

    const liveKey = liveKeyOf(reservation, o.onePer)
    const holder = holders.get(liveKey)
    if (holder !== undefined) return refuse({ why: 'already-bought', holder })
    if (situation.stopped.has(reservation.activityId)) return refuse({ why: 'stopped' })
    if (!stock) return refuse({ why: 'no-stock-row' })
    if (stock.version !== reservation.version) return refuse({ why: 'version-mismatch' })
    if (reservation.quantity > stock.maxPerOrder) return refuse({ why: 'over-limit' })
    const available = left.get(key) ?? 0
    if (reservation.quantity > available) return refuse({ why: 'sold-out', available })

    left.set(key, available - reservation.quantity)
    holders.set(liveKey, reservation.orderNo)
    return { kind: 'take', order, stock, liveKey }
  })
}

/** The price of the reservation's own version; without one, none. */
function priced(reservation: Reservation, stock: Stock | undefined, now: number): Order {
  if (!stock || stock.version !== reservation.version)
    return { ...reservation, amountMinor: 0, currency: NO_CURRENCY, payBy: now }
  return {
    ...reservation,
    amountMinor: reservation.quantity * stock.priceMinor,
    currency: stock.currency,
    payBy: now + stock.payWithinMs,
  }
}
