import type { DbNumbers, SaleNumbers, SkuRef } from '../core/types.js'
import type { FindingKind, Repair } from './classify.js'

/** One difference between Redis and the database. */
export interface Finding extends SkuRef {
  /** The same for the same difference in every run. */
  readonly id: string
  readonly kind: FindingKind | 'numbers-differ' | 'unreadable-record'
  readonly orderNo: string | null
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
}

export interface Report {
  readonly activityId: string
  readonly at: number
  readonly triangles: readonly Triangle[]
  readonly findings: readonly Finding[]
  readonly difference: number
  /** Difference per sellable unit. */
  readonly rate: number
  /** Anything to look at. */
  readonly alert: boolean
}

export type Repaired = { readonly id: string; readonly status: 'repaired' | 'gone' | 'manual' }

export function unreadable(ref: SkuRef, userId: string): Finding {
  const evidence = `the record of buyer ${userId} cannot be read`
  return {
    ...ref,
    id: `unreadable-record:${ref.skuId}:${userId}`,
    kind: 'unreadable-record',
    orderNo: null,
    units: 0,
    ageMs: null,
    evidence,
    repair: 'manual',
  }
}

export function numbersDiffer(ref: SkuRef, by: number, what: string): Finding {
  const evidence = `${what} differ by ${by}`
  return {
    ...ref,
    id: `numbers-differ:${ref.skuId}`,
    kind: 'numbers-differ',
    orderNo: null,
    units: Math.abs(by),
    ageMs: null,
    evidence,
    repair: 'manual',
  }
}
