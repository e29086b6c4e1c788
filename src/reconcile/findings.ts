import { createHash } from 'node:crypto'
import type { DbNumbers, SaleNumbers, SkuRef } from '../core/types.js'
import type { FindingKind, Repair } from './classify.js'

/** What is wrong with an SKU, a sale or a payment rather than with one number. */
export type SaleFindingKind =
  /** What lies in a buyer's field is no record. */
  | 'unreadable-record'
  /** A number that went back, of which neither a record nor a row tells whose it was. */
  | 'tombstone-alone'
  /** One buyer, two live orders. */
  | 'two-live-orders'
  /** S, after all top-ups. */
  | 'total-differs'
  /** In the database, not yet in Redis. */
  | 'top-up-owed'
  /** In Redis, not in the database. */
  | 'top-up-unbooked'
  /** The database's stock row does not add up with its orders. */
  | 'stock-row-differs'
  /** Redis' numbers do not add up among themselves: it takes no move any more. */
  | 'numbers-corrupt'
  /** Units, against the records that hold, confirmed and paid them. */
  | 'pending-differs'
  | 'frozen-differs'
  | 'sold-differs'
  /** More sold than there is, and no reservation on its way out that explains it. */
  | 'over-unexplained'
  /** Orders that wait, of the whole activity: it decides when admission pauses and resumes. */
  | 'waiting-differs'
  /** Stopped by the durable row, open in Redis. */
  | 'stop-owed'
  /** Open by the durable row, stopped in Redis. */
  | 'open-owed'
  /** A batch that nobody settled in time. */
  | 'batch-overdue'
  /** Redis has the units back, the outbox does not know. */
  | 'release-row-owed'
  /** The database lacks what it had decided a moment ago: a replica that lags, or commits that were lost. */
  | 'database-behind'
  /** A PAID order, and no payment that paid it. */
  | 'paid-without-payment'
  /** Money that was received, in no PAID order and in no refund. */
  | 'payment-without-order'
  /** Another amount or currency than the order's. */
  | 'amount-differs'
  /** Two payments paid one order. */
  | 'paid-twice'
  | 'refund-exceeds-payment'
  /** Decided, and not paid out for longer than the grace time. */
  | 'refund-stuck'

/** One difference. */
export interface Finding {
  readonly activityId: string
  /** Null for what concerns the activity as a whole. */
  readonly skuId: string | null
  /** The same for the same difference in every run. */
  readonly id: string
  readonly kind: FindingKind | SaleFindingKind
  readonly orderNo: string | null
  /** Whose record it is in Redis, else whose order. */
  readonly userId: string | null
  /** What it is about where that is no order: a top-up, batch or payment. */
  readonly subject: string | null
  readonly units: number
  /** By the client's clock at the deduction; null where no number is concerned. */
  readonly ageMs: number | null
  readonly evidence: string
  readonly repair: Repair
}

/** The triangle of one SKU: physical stock, Redis, orders. Units. */
export interface Triangle extends SkuRef {
  /** S. */
  readonly physical: number
  readonly redis: SaleNumbers
  readonly database: DbNumbers
  readonly confirmed: number
  readonly paid: number
  /** Orders, not units. */
  readonly closedOrders: number
  /** Held in Redis, not yet in the database, within the grace time. */
  readonly onTheWay: number
  /** Units that the findings are about. */
  readonly difference: number
  /** Nothing moved while the records were read, so that their sums could be compared with the numbers. */
  readonly sumsCompared: boolean
}

export interface Report {
  readonly activityId: string
  /** Names this run. */
  readonly run: string
  readonly at: number
  readonly triangles: readonly Triangle[]
  /** At most 10,000; `counts` has them all. */
  readonly findings: readonly Finding[]
  readonly counts: Readonly<Record<string, number>>
  /** There are more than are listed: repair these and run again. */
  readonly truncated: boolean
  readonly difference: number
  /** Difference per sellable unit. */
  readonly rate: number
  /** Anything to look at. */
  readonly alert: boolean
}

/**
 * `repaired`: now, by this call. `gone`: it no longer stands. `manual`: a task for a person. `later`: somebody else is at it,
 * or was when he died; the next run looks again.
 */
export interface Repaired {
  readonly id: string
  readonly status: 'repaired' | 'gone' | 'manual' | 'later'
}

type Draft = Pick<Finding, 'activityId' | 'skuId' | 'kind' | 'evidence' | 'repair'> &
  Partial<Pick<Finding, 'orderNo' | 'userId' | 'subject' | 'units' | 'ageMs'>>

export function findingOf(draft: Draft): Finding {
  const { kind, skuId, orderNo = null, userId = null, subject = null } = draft
  const about = orderNo ?? subject ?? userId
  const id = [kind, skuId, about === null ? null : nameable(about)].filter((p) => p !== null)
  return {
    ...draft,
    id: id.join(':'),
    orderNo,
    userId,
    subject,
    units: draft.units ?? 0,
    ageMs: draft.ageMs ?? null,
  }
}

/** A field that is no id (a foreign client wrote it) may be of any length and of any bytes. */
function nameable(text: string): string {
  if (/^[!-~]{1,64}$/.test(text)) return text
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 16)
  return `${text.slice(0, 24).replace(/[^!-~]/g, '?')}~${hash}`
}

export function unreadable(ref: SkuRef, userId: string): Finding {
  const shown = nameable(userId)
  const evidence = `the record of buyer ${shown} cannot be read`
  return findingOf({ ...ref, kind: 'unreadable-record', userId: shown, evidence, repair: 'manual' })
}
