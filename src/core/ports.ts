import type {
  Activity,
  Audit,
  Batch,
  DbNumbers,
  Json,
  Move,
  Moved,
  RebuiltStock,
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
  /** Rises with every act on the row; 0 for an activity nobody has touched. */
  readonly revision: number
}

/** The act that left a sale's durable row as it is. */
export interface LastAct {
  readonly state: SaleState
  readonly actor: string
  readonly reason: string
  /** As of {@link SaleControl}. */
  readonly revision: number
}

/** The durable row behind stop, open and token revocation; every process reads it each second. */
export interface ActivityControl {
  /** An activity nobody has touched is `{ state: 'stopped', tokenEpoch: 1, revision: 0 }`. */
  read(activityId: string): Promise<SaleControl>
  /**
   * Writes the row and its audit row in one transaction. Returns the row's new revision: greater than any before, also than
   * those that a database has lost by going back in time, so best the milliseconds of its clock, or one more than before.
   */
  set(activityId: string, to: SaleState, audit: Audit): Promise<number>
  /** Like {@link set}, unless somebody has acted since `revision`: then null, and nothing was written. */
  setIf(activityId: string, to: SaleState, audit: Audit, revision: number): Promise<number | null>
  /** Null for an activity nobody has touched. */
  lastAct(activityId: string): Promise<LastAct | null>
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

/** Something to be told to the world once, if the transaction that wrote it commits. */
export interface OutboxMessage {
  /** Whose number it is among all messages: 1 to 128 characters from `!` to `~`. The receiver tells duplicates by it. */
  readonly bizNo: string
  /** 1 to 64 characters from `!` to `~` without `|`. */
  readonly topic: string
  readonly payload: Json
}

/** A message that is due, held by whoever took it. */
export interface LeasedMessage {
  readonly bizNo: string
  readonly topic: string
  /** JSON, as it was written. */
  readonly payload: string
  /** How often it was taken, this time included. More than 10: the last try began and never ended. */
  readonly attempt: number
  /** Names this taking; once somebody else has taken the message, what is said under this lease changes nothing. */
  readonly lease: string
}

/** A message, and why it could not be sent: at most the first 500 characters are kept. */
export interface FailedMessage {
  readonly message: LeasedMessage
  readonly error: string
}

/**
 * Messages written in somebody's transaction and sent afterwards, at least once, in no order. The storage's clock
 * decides what is due and when a lease ends. Late calls of a holder whose lease was lost do nothing.
 */
export interface Outbox {
  /** What is due of a topic, leased to the caller: nobody else is given it for `leaseMs`. Counts as a try. */
  take(o: {
    readonly topic: string
    readonly limit: number
    readonly leaseMs: number
  }): Promise<readonly LeasedMessage[]>
  /** `leaseMs` from now. Returns those that are still the caller's. */
  renew(messages: readonly LeasedMessage[], leaseMs: number): Promise<readonly LeasedMessage[]>
  /** They were sent. */
  done(messages: readonly LeasedMessage[]): Promise<void>
  /** Due again after the pause for this many tries; those whose tries are used up are parked, and returned. */
  retry(failed: readonly FailedMessage[]): Promise<readonly FailedMessage[]>
  /** Set aside, each with a manual task in the same transaction. Returns those that were the caller's to park. */
  park(failed: readonly FailedMessage[]): Promise<readonly FailedMessage[]>
}

/** What a reconciler needs to know and do in Redis; a StockBucket has it. */
export interface Ledger {
  numbers(ref: SkuRef): Promise<SaleNumbers>
  scan(
    ref: SkuRef,
    cursor: string,
  ): Promise<{
    readonly rows: readonly ReservationRecord[]
    readonly beside: readonly ReservationRecord[]
    readonly strange: readonly string[]
    readonly next: string | null
  }>
  reservations(
    ref: SkuRef,
    numbers: readonly { readonly userId: string; readonly orderNo: string }[],
  ): Promise<readonly (ReservationRecord | null)[] | 'not-warmed'>
  move(moves: readonly Move[]): Promise<readonly Moved[]>
}

/** What a reconciler needs beside that; a StockBucket has it. */
export interface ReconcilableStock extends Ledger {
  /** The buyer's mark. */
  reservation(ref: SkuRef, userId: string): Promise<ReservationRecord | 'none' | 'not-warmed'>
  /** Numbers whose units went back, of all SKUs of the activity; pages as those of `scan`. */
  tombstones(
    ref: SkuRef,
    cursor: string,
  ): Promise<{ readonly numbers: readonly string[]; readonly next: string | null }>
  topUps(ref: SkuRef): Promise<readonly { readonly operationId: string; readonly units: number }[]>
  topUp(ref: SkuRef, units: number, operationId: string): Promise<SaleNumbers>
  control(
    activityId: string,
    to: SaleState,
    revision?: number,
  ): Promise<{ readonly acknowledged: number; readonly of: number }>
  /** Batches that should have been settled, or closed as lost, so long ago. Claims nothing. */
  overdue(
    activityId: string,
    o: { readonly lateMs: number },
  ): Promise<readonly { readonly batchId: string; readonly ageMs: number }[]>
  takeOwed(
    activityId: string,
    o: { readonly leaseMs: number; readonly limit: number },
  ): Promise<readonly { readonly due: 'send' | 'close'; readonly batch: Batch }[]>
  delivered(batch: Batch, outcome: 'settled'): Promise<void>
}

/** A difference as it is written down. */
export interface LoggedFinding {
  readonly activityId: string
  /** The same for the same difference in every run. */
  readonly id: string
  readonly kind: string
  readonly skuId: string | null
  readonly orderNo: string | null
  readonly units: number
  readonly evidence: string
  readonly repair: string
}

/** Remembers differences across runs: when each was first and last seen, and what became of it. */
export interface FindingLog {
  /** `complete`: the run lists everything there is, so what is not in it has gone. */
  seen(
    run: {
      readonly activityId: string
      readonly run: string
      readonly complete: boolean
    },
    findings: readonly LoggedFinding[],
  ): Promise<void>
  settled(
    activityId: string,
    outcomes: readonly {
      readonly id: string
      readonly status: 'repaired' | 'gone' | 'manual' | 'later'
    }[],
  ): Promise<void>
}

/** How far a Redis has come: the key epoch of an activity, and the batches deducted under it. */
export interface Fence {
  readonly epoch: number
  readonly seq: number
}

/** The highest fence seen of each activity, kept where no failover of Redis reaches it. */
export interface Fences {
  /** `{ epoch: 0, seq: 0 }` for an activity of which none was kept. */
  read(activityId: string): Promise<Fence>
  /** Keeps the higher of the two, by epoch and then by `seq`, and returns it. */
  raise(activityId: string, fence: Fence): Promise<Fence>
}

/**
 * How Redis stands with one activity. `not-warmed`: keys are missing or not of one piece. `corrupt`: numbers that do not
 * add up. `rewound`: it knows less than was seen of it before.
 */
export type RedisStanding = Fence & {
  readonly status: 'warm' | 'not-warmed' | 'corrupt' | 'rewound'
  readonly state: SaleState
  /** Orders not yet decided by the database. */
  readonly waiting: number
  /** Records kept of each SKU, released ones included. */
  readonly records: { readonly [skuId: string]: number }
  /** `maxmemory-policy`: anything but `noeviction` may drop keys of a sale. `unknown` where it may not be asked. */
  readonly eviction: string
}

/** What a rebuild needs to know and do in Redis; a StockBucket has it. */
export interface RebuildableStock extends Ledger {
  standing(activity: Activity): Promise<RedisStanding>
  control(
    activityId: string,
    to: SaleState,
    revision?: number,
  ): Promise<{ readonly acknowledged: number; readonly of: number }>
  rebuild(
    activity: Activity,
    orders: Pick<OrderBook, 'snapshot' | 'topUps'>,
    o: {
      readonly tokenEpoch: number
      readonly above?: number
      readonly revision?: number
      readonly signal?: AbortSignal
    },
  ): Promise<RebuiltStock>
}

/** Says that all records of an activity are in the database, as Redis had them. */
export interface Seal {
  readonly activityId: string
  readonly version: string
  /** The key epoch in Redis. */
  readonly epoch: number
  readonly records: number
  /** SHA-256, in hex, over the records of each SKU in order of number. */
  readonly checksum: string
  /** By the database's clock, epoch ms. */
  readonly sealedAt: number
}

/** Where the records of a sale go before Redis expires. */
export interface SealStore {
  find(activityId: string): Promise<Seal | null>
  /** Adds records of one SKU, at most 1,000, or changes those of the same number. False once the activity is sealed. */
  put(ref: SkuRef, records: readonly ReservationRecord[]): Promise<boolean>
  /** Takes records out that Redis does not have (any more). False once the activity is sealed. */
  drop(ref: SkuRef, orderNos: readonly string[]): Promise<boolean>
  /** Of an SKU, in order of number. */
  records(ref: SkuRef): AsyncIterable<ReservationRecord>
  /** Returns the seal that is there, if there is one. */
  finish(seal: Omit<Seal, 'sealedAt'>): Promise<Seal>
}

/** One payment for an order: money asked for, received, given back. Amounts are whole minor units of `currency`. */
export interface PaymentRow extends SkuRef {
  readonly paymentId: string
  readonly channel: string
  /** The order it was made for; '' (as its activity and SKU) for money that names none. */
  readonly orderNo: string
  /** The order it paid, also if the money went back later: the same, or after a late payment a new one. Else null. */
  readonly paidOrderNo: string | null
  /**
   * `received`: money without an order row yet. `paid`: in a PAID order. `refunding`, `refunded`: all of it goes, or has
   * gone back. `closed`: asked for and never received. `anomaly`: fits no order, for a person unless the channel confirms it.
   */
  readonly status: 'created' | 'received' | 'paid' | 'refunding' | 'refunded' | 'closed' | 'anomaly'
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

/** Where a saga stands. */
export interface SagaPosition {
  /** `active`: to be carried on. `ended`: all done, or all undone. `parked`: waits for a person. */
  readonly state: 'active' | 'ended' | 'parked'
  /** `turn`: the step is to be undone if it was done, which nobody knows yet. */
  readonly direction: 'do' | 'turn' | 'undo'
  /** Index and name of the step it is at, or ended with. */
  readonly step: number
  readonly stepName: string
  /** JSON of at most 60,000 bytes. */
  readonly data: string
  /** How often this step was begun in this direction. */
  readonly tries: number
  /** Why it turned back. */
  readonly reason: string | null
  readonly lastError: string | null
}

/** A saga as it is stored. Instants are epoch ms by the database's clock. */
export interface SagaRow extends SagaPosition {
  readonly sagaId: string
  readonly kind: string
  /** Rises with each holder. */
  readonly fence: number
  /** When it may next be taken: the end of the lease while somebody has it, else of the pause. */
  readonly nextAt: number
  readonly createdAt: number
  readonly updatedAt: number
}

/** The right to carry a saga on, good as long as nobody else has taken it since. */
export type SagaHold = Pick<SagaRow, 'sagaId' | 'kind' | 'fence'>

/** Sagas in a database, where `Trx` is a transaction of the host. */
export interface SagaStore<Trx> {
  /**
   * Writes a new saga at its first step in the caller's transaction, which stays usable. `known`: this id stands for
   * the same fingerprint (of kind and data) already. `differs`: for another; nothing was written.
   */
  begin(
    trx: Trx,
    saga: Pick<SagaRow, 'sagaId' | 'kind' | 'stepName' | 'data'> & { readonly fingerprint: string },
  ): Promise<'begun' | 'known' | 'differs'>
  /** Leases what is due to the caller, with a higher fence and one more try each. */
  take(o: {
    readonly kind: string
    readonly limit: number
    readonly leaseMs: number
  }): Promise<readonly SagaRow[]>
  /** False when another has taken it since, as for {@link save}. */
  renew(hold: SagaHold, leaseMs: number): Promise<boolean>
  /** Writes where it stands and after how many ms it is due; a parked one leaves a manual task `saga-parked` with it. */
  save(hold: SagaHold, to: SagaPosition & { readonly waitMs: number }): Promise<boolean>
  find(sagaId: string): Promise<SagaRow | null>
  /** The longest parked first. */
  parked(o: { readonly kind: string; readonly limit: number }): Promise<readonly SagaRow[]>
  /** Makes a parked one due and resolves its task, with an audit row. False when it is not parked under that fence. */
  resume(hold: SagaHold, to: SagaPosition, audit: Audit): Promise<boolean>
  /** Active sagas of all kinds that nobody has taken for so long. */
  unattended(o: {
    readonly overdueMs: number
  }): Promise<readonly { readonly kind: string; readonly due: number }[]>
}

/** Notices for the host's logs, metrics and pager. Must not throw; what it throws is swallowed. */
export interface FlashSaleEvents {
  onRefused?(layer: string, refusal: Refusal, who: SkuRef & { readonly userId: string }): void
  onAlert?(code: string, detail: { readonly [key: string]: unknown }): void
}
