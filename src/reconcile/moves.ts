import * as check from '../core/check.js'
import { moveTo } from '../core/standing.js'
import type { Move, Reservation } from '../core/types.js'
import type { Pair } from './second-look.js'

/** Redis is told how far the row is. */
export function toRow({ row, record }: Pair): Move {
  const reservation = reservationOf((row ?? record) as Reservation)
  return row ? moveTo(row, reservation) : { to: 'confirmed', reservation }
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
