import type { OrderRow, Verdict } from './order-book.js'
import type { Move, Reservation } from './types.js'

/** The reason of a row closed by the refund of all it was paid with. */
export const REFUNDED = 'refunded'

/** ISO 4217 for "no currency": a number closed without a stock row of its version has no price. */
export const NO_CURRENCY = 'XXX'

/** An order row, or the verdict on a number. */
interface Decided {
  readonly status: OrderRow['status']
  readonly reason?: string | null
}

/**
 * How far Redis is to be. A refund closes the order, but whether its units go back on sale is the host's decision, made as a
 * top-up: until then the database keeps them, and Redis keeps them as sold.
 */
export function standing({ status, reason }: Decided): OrderRow['status'] {
  return status === 'closed' && reason === REFUNDED ? 'paid' : status
}

/** What Redis is to be told. */
export function moveTo(decided: Decided, reservation: Reservation): Move {
  const to = standing(decided)
  return to === 'closed'
    ? { to: 'released', reservation, reason: decided.reason || 'closed' }
    : { to, reservation }
}

/**
 * What Redis is to be told of the database's verdicts on these reservations, after their COMMIT: `confirmed`, `paid`, or
 * `released`. A refunded order stays sold in Redis too.
 */
export function movesOf(
  verdicts: readonly Verdict[],
  reservations: readonly Reservation[],
): readonly Move[] {
  const byNumber = new Map(reservations.map((r) => [r.orderNo, r]))
  return verdicts.flatMap((verdict) => {
    const reservation = byNumber.get(verdict.orderNo)
    return reservation ? [moveTo(verdict, reservation)] : []
  })
}
