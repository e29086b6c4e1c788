import type { Activity, Audit, Refusal, SaleState, SkuRef } from './types.js'

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
