import type { OrderBook } from './order-book.js'
import type {
  Activity,
  Batch,
  Move,
  Moved,
  RebuiltStock,
  ReservationRecord,
  SaleNumbers,
  SaleState,
  SkuRef,
} from './types.js'

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
  /** Which the sale runs; '' where there is none. */
  readonly version: string
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
  /** A number that is another whenever records of the activity, of any SKU, have changed. 0 while there are none. */
  generation(activityId: string): Promise<number>
  /** Adds records of one SKU, at most 1,000, or changes those of the same number. False once the activity is sealed. */
  put(ref: SkuRef, records: readonly ReservationRecord[]): Promise<boolean>
  /** Takes records out that Redis does not have (any more). False once the activity is sealed. */
  drop(ref: SkuRef, orderNos: readonly string[]): Promise<boolean>
  /** Of an SKU, in order of number. */
  records(ref: SkuRef): AsyncIterable<ReservationRecord>
  /**
   * Returns the seal that is there, if there is one. Null when the records are not of `generation` any more: another run
   * has changed them, and the checksum is not theirs. Changes and seals of an activity exclude each other.
   */
  finish(seal: Omit<Seal, 'sealedAt'> & { readonly generation: number }): Promise<Seal | null>
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
