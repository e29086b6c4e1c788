import type { Activity, Audit, DbNumbers, Json, Reservation, SkuRef } from './types.js'

/** What the database decided for one order number. `fresh`: decided by this very call. */
export type Verdict =
  | { readonly orderNo: string; readonly status: 'confirmed' | 'paid'; readonly fresh: boolean }
  | {
      readonly orderNo: string
      readonly status: 'closed'
      readonly reason: string
      readonly fresh: boolean
    }

/** An order row. */
export interface OrderRow extends Reservation {
  readonly status: 'confirmed' | 'paid' | 'closed'
  /** Why it was closed; null otherwise. */
  readonly reason: string | null
  readonly amountMinor: number
  readonly currency: string
  /** Deadline of payment, epoch ms by the database's clock. */
  readonly payBy: number
}

/** Units to give back to Redis for an order that the database closed, until Redis has been told. */
export interface OwedRelease {
  readonly id: string
  /** Names this taking; once somebody else has taken the release, `retryReleases` of this one changes nothing. */
  readonly lease: string
  readonly reservation: Reservation
  readonly reason: string
}

/** Work for a person; there is one of a kind for each `ref`. */
export interface ManualTask {
  readonly kind: string
  /** What it is about, at most 200 characters. */
  readonly ref: string
  /** JSON of at most 60,000 bytes. */
  readonly detail: Json | object
}

/** S of an SKU, the operations that are in it, and what is sold, all of one moment. */
export interface PreparedNumbers extends DbNumbers {
  readonly topUps: readonly { readonly operationId: string; readonly units: number }[]
}

/** The database's side: whoever first inserts an order number's row decides that reservation's fate for ever. */
export interface OrderBook {
  /**
   * Makes sure that each SKU has its stock row (units, version, price, payment window) and returns the database's
   * numbers. Idempotent: rows that exist are left alone, except that the terms of a version that never sold are replaced.
   */
  prepare(activity: Activity): Promise<readonly PreparedNumbers[]>
  /** One transaction for all; safe to repeat. Every number gets a row: confirmed, or closed with its reason. */
  confirm(reservations: readonly Reservation[], signal?: AbortSignal): Promise<readonly Verdict[]>
  /** Closes those numbers that have no row yet; returns the verdict of every number. */
  closeUnbooked(reservations: readonly Reservation[], reason: string): Promise<readonly Verdict[]>
  /** CONFIRMED to CLOSED, with the units back in the database's stock row; others are left as they are. Unknown numbers are left out. */
  closeUnpaid(orderNos: readonly string[], reason: string): Promise<readonly Verdict[]>
  /** Strong mode: confirmed, or refused without a row. Calls are group-committed. A buyer's live order is answered `already-bought`. */
  buy(
    reservation: Reservation,
  ): Promise<
    | { readonly status: 'confirmed'; readonly orderNo: string; readonly fresh: boolean }
    | { readonly status: 'closed'; readonly orderNo: string; readonly reason: string }
    | { readonly status: 'already-bought'; readonly orderNo: string }
    | { readonly status: 'sold-out' | 'stopped' | 'version-mismatch' }
    | { readonly status: 'not-enough'; readonly available: number }
  >
  find(orderNos: readonly string[]): Promise<readonly OrderRow[]>
  /** The buyer's live order, else his latest closed one, else null. */
  findByBuyer(ref: SkuRef, userId: string): Promise<OrderRow | null>
  numbers(ref: SkuRef): Promise<DbNumbers | null>
  /** All rows of an SKU (or those behind the number `after`) in order of number, from one consistent view of the primary. */
  snapshot(ref: SkuRef, after?: string): AsyncIterable<OrderRow>
  /** S and the operations that are in it, of one moment; null without a stock row. */
  topUps(ref: SkuRef): Promise<{
    readonly total: number
    readonly operations: readonly { readonly operationId: string; readonly units: number }[]
  } | null>
  /** Adds (or, negative, withdraws) units once per operation id. Refuses to withdraw more than is available. */
  topUp(ref: SkuRef, units: number, operationId: string, audit: Audit): Promise<DbNumbers>
  /** Closed orders whose units Redis may not have got back yet; each is leased to the caller for `leaseMs`. */
  takeReleases(o: {
    readonly limit: number
    readonly leaseMs: number
  }): Promise<readonly OwedRelease[]>
  /** Numbers of an SKU whose release has been owed for so long, also those left to a person; the oldest first. */
  owedReleases(
    ref: SkuRef,
    o: { readonly olderThanMs: number; readonly limit: number },
  ): Promise<readonly string[]>
  /** Redis has been told, whoever did it. */
  released(orderNos: readonly string[]): Promise<void>
  /**
   * Redis could not be told: they are due again after a pause. Returns the numbers of those that failed too often and
   * are now left to a person; a book may also offer its releases for ever and return none.
   */
  retryReleases(releases: readonly OwedRelease[], why: string): Promise<readonly string[]>
  /** Leaves work for a person; the same task again changes nothing. */
  addManualTask(task: ManualTask): Promise<void>
}
