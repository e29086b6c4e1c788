import * as check from '../core/check.js'
import type { Verdict } from '../core/order-book.js'
import type { OrderRef } from '../core/payment.js'
import { moveTo } from '../core/standing.js'
import type { Reservation } from '../core/types.js'
import type { Parts } from './parts.js'

export interface CancelQuestion extends OrderRef {
  /** From the host's session, never from the request's body. */
  readonly userId: string
}

/**
 * - `closed`: by this call. `already-closed`: another came first, for its own reason.
 * - `paid`: the money is here; give it back by a refund. `confirmed`: the host's `onClose` threw, it is still open.
 * - `not-found`: no such order of this buyer in this sale.
 */
export type CloseAnswer =
  | { readonly status: 'closed' | 'already-closed'; readonly reason: string }
  | { readonly status: 'paid' | 'confirmed' | 'not-found' }

/** The buyer gives up. A number that has no row yet gets a CLOSED one, so that a late message finds it decided. */
export async function cancel(parts: Parts, q: CancelQuestion): Promise<CloseAnswer> {
  check.object(q, 'question')
  const { activityId, skuId } = check.skuRef(q)
  const orderNo = check.id(q.orderNo, 'orderNo')
  const userId = check.userIdOf(q.userId)
  const [row] = await parts.orders.find([orderNo])
  if (row) {
    const his = row.userId === userId && row.activityId === activityId && row.skuId === skuId
    if (!his) return { status: 'not-found' }
    return close(parts, orderNo, 'cancelled')
  }
  // Without the record nobody knows whose number it is.
  const record = await parts.remembered({ activityId, skuId }, userId, orderNo)
  if (!record) return { status: 'not-found' }
  const { quantity, bucket, version, reservedAt } = record
  const reservation = { orderNo, activityId, skuId, userId, quantity, bucket, version, reservedAt }
  const verdict = await closeUnbooked(parts, reservation, 'cancelled')
  // The row came in between: then it is an order like any other.
  return verdict.status === 'closed' ? answerOf(verdict) : close(parts, orderNo, 'cancelled')
}

/** Closes an order that is CONFIRMED, for whatever reason but a buyer's: risk, a saga, an operator. */
export async function close(parts: Parts, orderNo: string, reason: string): Promise<CloseAnswer> {
  const [closed] = await closeOrders(parts, [check.id(orderNo, 'orderNo')], reason)
  return closed ? answerOf(closed) : { status: 'not-found' }
}

/** Database first; Redis after the commit, also of what others closed and may not have told. */
export async function closeOrders(
  parts: Parts,
  orderNos: readonly string[],
  reason: string,
): Promise<readonly Verdict[]> {
  const verdicts = await parts.orders.closeUnpaid(orderNos, reason)
  const fresh = new Set(
    verdicts.filter((v) => v.status === 'closed' && v.fresh).map((v) => v.orderNo),
  )
  if (fresh.size === 0) return verdicts
  const rows = await parts.orders.find([...fresh])
  await parts.tell(rows.map((reservation) => ({ to: 'released', reservation, reason })))
  await parts.book.hasten([...fresh])
  return verdicts
}

export async function closeUnbooked(
  parts: Parts,
  reservation: Reservation,
  reason: string,
): Promise<Verdict> {
  const [verdict] = await parts.orders.closeUnbooked([reservation], reason)
  if (verdict?.status === 'closed') await parts.tell([moveTo(verdict, reservation)])
  return verdict as Verdict
}

function answerOf(verdict: Verdict): CloseAnswer {
  if (verdict.status !== 'closed') return { status: verdict.status }
  return { status: verdict.fresh ? 'closed' : 'already-closed', reason: verdict.reason }
}
