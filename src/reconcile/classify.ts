import type { OrderRow } from '../core/order-book.js'
import { standing } from '../core/standing.js'
import type { ReservationRecord } from '../core/types.js'

/** What is wrong with one order number, seen from both sides. */
export type FindingKind =
  /** Deducted in Redis, no row in the database, and too old to be on its way: the message was lost. */
  | 'no-order'
  /** A live order that Redis does not know: its deduction was lost with Redis. */
  | 'no-deduction'
  /** The database confirmed it, Redis was not told. */
  | 'confirm-owed'
  /** The order is paid, Redis was not told. */
  | 'paid-owed'
  /** The database closed it, the units are not back in Redis. */
  | 'release-owed'
  /** Returned in Redis, but the database has no row that says so. */
  | 'no-closing'
  /** A confirmed order whose units are on sale again. */
  | 'excess-order'
  /** A paid order whose units are on sale again. */
  | 'paid-but-returned'
  /** Redis knows it as confirmed or paid, the database does not. */
  | 'order-missing'
  /** Paid in Redis, not (or no longer) in the database. */
  | 'paid-differs'
  /** Both say it lives, of another number of units. */
  | 'quantity-differs'
  /** The record is another buyer's, or of another SKU, than the order. */
  | 'owner-differs'
  /** The order is of another version or bucket than the record. */
  | 'terms-differ'
  /** A live order that lies beside a mark which bars nobody: its buyer could be admitted in vain again. */
  | 'mark-missing'

/**
 * By order number: a row closed, an order closed, a unit taken, Redis told to confirm or to release; or a person. For the sale
 * as a whole: a top-up applied, the stop re-applied, a batch settled, an owed release struck off.
 */
export type Repair =
  | 'close'
  | 'close-order'
  | 'deduct'
  | 'confirm'
  | 'release'
  | 'manual'
  | 'top-up'
  | 'stop'
  | 'settle'
  | 'strike'
export type NumberRepair = Exclude<Repair, 'top-up' | 'stop' | 'settle' | 'strike'>

export type Verdict =
  | { readonly status: 'agrees' }
  /** Differs, and may still be on its way. */
  | { readonly status: 'on-its-way'; readonly kind: FindingKind }
  | { readonly status: 'finding'; readonly kind: FindingKind; readonly repair: NumberRepair }

const AGREES: Verdict = { status: 'agrees' }
const finding = (kind: FindingKind, repair: NumberRepair): Verdict => ({
  status: 'finding',
  kind,
  repair,
})

const owed = (young: boolean, kind: FindingKind, repair: NumberRepair): Verdict =>
  young ? { status: 'on-its-way', kind } : finding(kind, repair)

/** Kinds in which the database is ahead of Redis: told a moment later, they are gone. */
export const REDIS_BEHIND: ReadonlySet<string> = new Set<FindingKind>([
  'confirm-owed',
  'paid-owed',
  'release-owed',
  'no-deduction',
])

/**
 * Compares how far Redis and the database are with one number. `young`: not older than the grace time, so what differs may
 * still be on its way and is nobody's loss.
 */
export function compareStates(
  record: Pick<ReservationRecord, 'state'> | null,
  row: Pick<OrderRow, 'status' | 'reason'> | null,
  young: boolean,
): Verdict {
  const db = row === null ? 'none' : standing(row)
  const redis = record?.state ?? 'none'
  switch (redis) {
    case 'none':
      // A late payment's order is paid from the start, and adopted a moment later.
      if (db === 'paid') return owed(young, 'no-deduction', 'deduct')
      return db === 'confirmed' ? finding('no-deduction', 'deduct') : AGREES
    case 'held':
      if (db === 'none') return owed(young, 'no-order', 'close')
      if (db === 'closed') return owed(young, 'release-owed', 'release')
      return owed(young, db === 'paid' ? 'paid-owed' : 'confirm-owed', 'confirm')
    case 'confirmed':
      // Redis hears of a row after its commit: a number that young is missed by a database that lags, or lost its last commits.
      if (db === 'none') return owed(young, 'order-missing', 'manual')
      if (db === 'closed') return owed(young, 'release-owed', 'release')
      // Nobody else carries it to Redis, and until then its buyer hears that he has not paid.
      return db === 'paid' ? finding('paid-owed', 'confirm') : AGREES
    case 'paid':
      if (db === 'none') return owed(young, 'order-missing', 'manual')
      return db === 'paid' ? AGREES : finding('paid-differs', 'manual')
    case 'released':
      if (db === 'none') return owed(young, 'no-closing', 'close')
      if (db === 'confirmed') return finding('excess-order', 'close-order')
      return db === 'paid' ? finding('paid-but-returned', 'manual') : AGREES
    default:
      return redis satisfies never
  }
}

/** {@link compareStates}, and whether both speak of the same order. */
export function classify(
  record: ReservationRecord | null,
  row: OrderRow | null,
  young: boolean,
): Verdict {
  if (record && row) {
    const { userId, skuId, activityId } = row
    if (record.userId !== userId || record.skuId !== skuId || record.activityId !== activityId)
      return finding('owner-differs', 'manual')
    const bothLive = record.state !== 'released' && row.status !== 'closed'
    if (bothLive && record.quantity !== row.quantity) return finding('quantity-differs', 'manual')
    if (bothLive && (record.version !== row.version || record.bucket !== row.bucket))
      return finding('terms-differ', 'manual')
  }
  return compareStates(record, row, young)
}
