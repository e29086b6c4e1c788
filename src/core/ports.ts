import type {
  Activity,
  Audit,
  Batch,
  DbNumbers,
  Json,
  Move,
  Moved,
  Refusal,
  Reservation,
  ReservationRecord,
  SaleNumbers,
  SaleState,
  Sent,
  SkuRef,
} from './types.js'

/** The two methods used of a Redis client; ioredis 5 and 6 (also Cluster) have them. The host opens and closes it. */
export interface RedisLike {
  evalsha(sha: string, keys: number, ...args: string[]): Promise<unknown>
  eval(lua: string, keys: number, ...args: string[]): Promise<unknown>
}

/** Something that runs in the background. `stop` is idempotent and drains what was begun; all callers share one promise. */
export interface Background extends AsyncDisposable {
  start(): Promise<void>
  stop(o?: { readonly drainMs?: number }): Promise<void>
}

/** Where activities come from. Results are cached in the process; `load` is called again about once a second. */
export interface ActivityStore {
  load(activityId: string): Promise<Activity | null>
  /** Ids of the activities whose reservations are not all settled: those the relay looks after. */
  live(): Promise<readonly string[]>
}

/** The durable switch of a sale. */
export interface SaleControl {
  readonly state: SaleState
  /** Tokens issued under a smaller epoch are revoked. */
  readonly tokenEpoch: number
}

/** The durable row behind stop, open and token revocation; every process reads it each second. */
export interface ActivityControl {
  /** An activity nobody has touched is `{ state: 'stopped', tokenEpoch: 1 }`. */
  read(activityId: string): Promise<SaleControl>
  /** Writes the row and its audit row in one transaction. */
  set(activityId: string, to: SaleState, audit: Audit): Promise<void>
  /** Raises the token epoch by one and returns it, with an audit row in the same transaction. */
  revokeTokens(activityId: string, audit: Audit): Promise<number>
  /** `running` unless somebody has frozen them; all workers of this database read it each second. */
  readConsumers(): Promise<ConsumerState>
  /** Writes the row and its audit row in one transaction. */
  setConsumers(to: ConsumerState, audit: Audit): Promise<void>
}

/** Frozen workers confirm nothing; what they were handed stays in the queue. */
export type ConsumerState = 'running' | 'frozen'

/** What a consumer is handed: several batches, delivered for the `attempt`-th time (1 is the first). */
export interface Delivery {
  readonly batches: readonly Batch[]
  readonly attempt: number
  readonly signal: AbortSignal
}

/** What becomes of a message. `ack`: done. `retry`: deliver again, after a pause. `dead`: set aside for a person. */
export type Handled = 'ack' | 'retry' | 'dead'

/** One answer for all batches of the delivery, or one for each in their order. A throw counts as `retry`. */
export type BatchHandler = (delivery: Delivery) => Promise<Handled | readonly Handled[]>

/** Await neither `pause` nor `stop` within the handler: they wait for it. */
export interface Consumer {
  /** Resolves when the hand-over that runs has ended; no further one starts. */
  pause(): Promise<void>
  resume(): void
  /** Aborts the signal of the delivery, lets the handler that runs end, then resolves. Idempotent. */
  stop(): Promise<void>
}

/** Carries batches from the deduction to the database. Duplicates and any order are allowed; silent loss is repaired. */
export interface Queue extends Background {
  /**
   * Never rejects for a refused or lost message: that is `rejected` or `unknown`. A message over the size limit, and any
   * message once the queue was stopped, is not `accepted`.
   */
  send(batch: Batch, o: { readonly signal: AbortSignal }): Promise<Sent>
  /** Begins to hand over, at most `maxBatches` at a time and one hand-over after the other. */
  consume(handler: BatchHandler, o: { readonly maxBatches: number }): Consumer
  /** Messages (not orders) not yet acknowledged, and the age of the oldest. */
  lag(): Promise<{ readonly messages: number; readonly oldestAgeMs: number | null } | 'unknown'>
}

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

/** The database's side: whoever first inserts an order number's row decides that reservation's fate for ever. */
export interface OrderBook {
  /**
   * Makes sure that each SKU has its stock row (units, version, price, payment window) and returns the database's
   * numbers. Idempotent: rows that exist are left alone, except that the terms of a version that never sold are replaced.
   */
  prepare(activity: Activity): Promise<readonly DbNumbers[]>
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
  /** All rows of an SKU in order of number, from one consistent view of the primary. */
  snapshot(ref: SkuRef): AsyncIterable<OrderRow>
  /** Adds (or, negative, withdraws) units once per operation id. Refuses to withdraw more than is available. */
  topUp(ref: SkuRef, units: number, operationId: string, audit: Audit): Promise<DbNumbers>
  /** Closed orders whose units Redis may not have got back yet; each is leased to the caller for `leaseMs`. */
  takeReleases(o: {
    readonly limit: number
    readonly leaseMs: number
  }): Promise<readonly OwedRelease[]>
  /** Redis has been told. */
  released(orderNos: readonly string[]): Promise<void>
  /** Leaves work for a person; the same task again changes nothing. */
  addManualTask(task: ManualTask): Promise<void>
}

/** What a reconciler needs to know and do in Redis; a StockBucket has it. */
export interface Ledger {
  numbers(ref: SkuRef): Promise<SaleNumbers>
  scan(
    ref: SkuRef,
    cursor: string,
  ): Promise<{
    readonly rows: readonly ReservationRecord[]
    readonly strange: readonly string[]
    readonly next: string | null
  }>
  reservations(
    ref: SkuRef,
    numbers: readonly { readonly userId: string; readonly orderNo: string }[],
  ): Promise<readonly (ReservationRecord | null)[] | 'not-warmed'>
  move(moves: readonly Move[]): Promise<readonly Moved[]>
}

/** One payment for an order: money asked for, received, given back. Amounts are whole minor units of `currency`. */
export interface PaymentRow extends SkuRef {
  readonly paymentId: string
  readonly channel: string
  /** The order it was made for. */
  readonly orderNo: string
  /** The order it paid: the same, or after a late payment a new one; null while nothing was received, or if it goes back. */
  readonly paidOrderNo: string | null
  readonly status: 'created' | 'paid' | 'refunding' | 'refunded' | 'closed' | 'anomaly'
  readonly amountMinor: number
  readonly currency: string
  /** What the channel says it received. */
  readonly capturedMinor: number
  /** Sum of all refunds decided; `refundedMinor` of it the channel has paid out. */
  readonly refundingMinor: number
  readonly refundedMinor: number
}

/** What a reconciler reads of payments. */
export interface PaymentRecords {
  /** All payments for orders of an SKU in order of `orderNo`, from one consistent view of the primary. */
  snapshot(ref: SkuRef): AsyncIterable<PaymentRow>
  /** Those made for, or that paid, one of these orders. */
  find(orderNos: readonly string[]): Promise<readonly PaymentRow[]>
}

/** The right to be the only one who does something, until it runs out by the database's clock. */
export interface Lease {
  /** Rises with each holder; what an earlier holder still writes can be told by it. */
  readonly fence: number
  /** False when it was lost meanwhile. */
  renew(leaseMs: number): Promise<boolean>
  /** Lets others have it now; does nothing when it was lost. */
  release(): Promise<void>
}

export interface Leases {
  /** Null while another holds it. */
  take(name: string, leaseMs: number): Promise<Lease | null>
}

/** Notices for the host's logs, metrics and pager. Must not throw; what it throws is swallowed. */
export interface FlashSaleEvents {
  onRefused?(layer: string, refusal: Refusal, who: SkuRef & { readonly userId: string }): void
  onAlert?(code: string, detail: { readonly [key: string]: unknown }): void
}
