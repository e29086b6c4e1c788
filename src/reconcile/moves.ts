import * as check from '../core/check.js'
import type { OrderBook } from '../core/order-book.js'
import { moveTo } from '../core/standing.js'
import type { Move, Reservation } from '../core/types.js'
import type { Pair } from './second-look.js'

/** Redis is told how far the row is. */
export function toRow({ row, record }: Pair): Move {
  const reservation = reservationOf((row ?? record) as Reservation)
  return row ? told(moveTo(row, reservation)) : { to: 'confirmed', reservation }
}

/** Redis is told what the database has just decided. */
export function movesOf(
  verdicts: Awaited<ReturnType<OrderBook['closeUnbooked']>>,
  reservations: readonly Reservation[],
): readonly Move[] {
  const byNumber = new Map(reservations.map((r) => [r.orderNo, r]))
  return verdicts.flatMap((v): Move[] => {
    const reservation = byNumber.get(v.orderNo)
    return reservation ? [told(moveTo(v, reservation))] : []
  })
}

export function reservationOf(r: Reservation): Reservation {
  const { orderNo, activityId, skuId, userId, quantity, bucket, version, reservedAt } = r
  return { orderNo, activityId, skuId, userId, quantity, bucket, version, reservedAt }
}

/** A tombstone alone has no quantity, and a record of another hand may have any: no call takes such a reservation. */
export function isSound(r: Reservation | null): boolean {
  try {
    check.reservation(r as Reservation)
    return true
  } catch {
    return false
  }
}

/** Redis keeps 100 characters, and none of those that separate. */
function told(move: Move): Move {
  return move.to === 'released'
    ? { ...move, reason: move.reason.replace(/[|\n]/g, ' ').slice(0, 100) }
    : move
}
