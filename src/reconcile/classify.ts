import type { OrderRow } from '../core/ports.js'
import type { ReservationRecord } from '../core/types.js'

/** What is wrong with one order number, seen from both sides. */
export type FindingKind =
  /** Deducted in Redis, no row in the database, and too old to be on its way: the message was lost. */
  | 'no-order'
  /** A live order that Redis does not know: its deduction was lost with Redis. */
  | 'no-deduction'
  /** The database went on, Redis was not told. */
  | 'confirm-owed'
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

export type Repair = 'close' | 'close-order' | 'deduct' | 'confirm' | 'release' | 'manual'

export type Verdict =
  | { readonly status: 'agrees' | 'on-its-way' }
  | { readonly status: 'finding'; readonly kind: FindingKind; readonly repair: Repair }

const AGREES: Verdict = { status: 'agrees' }
const ON_ITS_WAY: Verdict = { status: 'on-its-way' }
const finding = (kind: FindingKind, repair: Repair): Verdict => ({
  status: 'finding',
  kind,
  repair,
})

/**
 * Compares what Redis and the database say of one number. `young`: not older than the grace time, so what differs may
 * still be on its way and is nobody's loss.
 */
export function classify(
  record: Pick<ReservationRecord, 'state'> | null,
  row: Pick<OrderRow, 'status' | 'reason'> | null,
  young: boolean,
): Verdict {
  const owed = (kind: FindingKind, repair: Repair) => (young ? ON_ITS_WAY : finding(kind, repair))
  const db = row?.status ?? 'none'
  const redis = record?.state ?? 'none'
  switch (redis) {
    case 'none':
      return db === 'confirmed' || db === 'paid' ? finding('no-deduction', 'deduct') : AGREES
    case 'held':
      if (db === 'none') return owed('no-order', 'close')
      return db === 'closed' ? owed('release-owed', 'release') : owed('confirm-owed', 'confirm')
    case 'confirmed':
      if (db === 'none') return finding('order-missing', 'manual')
      if (db === 'closed') return owed('release-owed', 'release')
      return db === 'paid' ? owed('confirm-owed', 'confirm') : AGREES
    case 'paid':
      if (db === 'none') return finding('order-missing', 'manual')
      // A refund closes the order; whether its units go back on sale is the host's decision, so Redis keeps them as sold.
      return db === 'paid' || row?.reason === 'refunded'
        ? AGREES
        : finding('paid-differs', 'manual')
    case 'released':
      if (db === 'none') return owed('no-closing', 'close')
      if (db === 'confirmed') return finding('excess-order', 'close-order')
      return db === 'paid' ? finding('paid-but-returned', 'manual') : AGREES
    default:
      return redis satisfies never
  }
}
