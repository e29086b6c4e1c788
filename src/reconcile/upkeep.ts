import { pause } from '../core/background.js'
import type { OrderBook } from '../core/order-book.js'
import type { ActivityControl } from '../core/ports.js'
import type { ReconcilableStock } from '../core/reconcile.js'
import type { Activity, SkuRef } from '../core/types.js'
import type { FindingList } from './finding-list.js'
import { type Finding, findingOf } from './findings.js'
import { redisNumbers } from './numbers.js'
import { stopIfAborted } from './stop.js'

export interface UpkeepParts {
  readonly stock: ReconcilableStock
  readonly orders: OrderBook
  readonly control: Pick<ActivityControl, 'read'> | undefined
  readonly graceMs: number
  readonly settleMs: number
  readonly signal: AbortSignal | undefined
}

/** Many rounds of any relay. */
const LATE_MS = 60_000
/** Releases looked at in one run, by SKU; the next run goes on. */
const MAX_RELEASES = 1_000
/** Before Redis can have heard of a closing, its release row is nobody's loss: the source's first pause, twice. */
const RELEASE_ROW_MS = 30_000

/** What concerns the activity as a whole. */
export class Upkeep {
  constructor(
    private readonly parts: UpkeepParts,
    private readonly activity: Activity,
    private readonly found: FindingList,
  ) {}

  async run(o: {
    readonly heldOrders: number
    /** Null when Redis moved meanwhile, or could not be read. */
    readonly waiting: number | null
    readonly withoutClosing: ReadonlySet<string>
  }): Promise<void> {
    const { activityId, skus } = this.activity
    await this.#state()
    if (o.waiting !== null && o.waiting !== o.heldOrders)
      this.#add(
        'waiting-differs',
        null,
        `Redis counts ${o.waiting} orders that wait, its records ${o.heldOrders}`,
      )
    await this.#batches()
    for (const { skuId } of skus) await this.#releases({ activityId, skuId })
    await this.#tombstones({ activityId, skuId: this.#skuId }, o.withoutClosing)
  }

  #add(
    kind: Finding['kind'],
    subject: string | null,
    evidence: string,
    repair: Finding['repair'] = 'manual',
  ) {
    const { activityId } = this.activity
    this.found.add(findingOf({ activityId, skuId: null, kind, subject, evidence, repair }))
  }

  /** The durable row comes first, and Redis a moment later. */
  async #state(): Promise<void> {
    if ((await this.#differs()) === null) return
    await pause(this.parts.settleMs, this.parts.signal ?? new AbortController().signal)
    const differs = await this.#differs()
    if (differs === 'stop-owed')
      this.#add(differs, this.#skuId, 'stopped by the durable row, open in Redis', 'stop')
    else if (differs) this.#add(differs, this.#skuId, 'open by the durable row, stopped in Redis')
  }

  /** Any SKU tells the state of the sale. */
  get #skuId(): string {
    return this.activity.skus[0]?.skuId ?? ''
  }

  async #differs(): Promise<'stop-owed' | 'open-owed' | null> {
    const { control, stock } = this.parts
    if (!control) return null
    const { activityId } = this.activity
    const row = await control.read(activityId)
    const redis = await redisNumbers(stock, { activityId, skuId: this.#skuId })
    if (redis === 'corrupt' || redis.state === row.state) return null
    return row.state === 'stopped' ? 'stop-owed' : 'open-owed'
  }

  /** A relay closes what nobody confirms; a batch that late has none. */
  async #batches(): Promise<void> {
    const { activityId } = this.activity
    for (const { batchId, ageMs } of await this.parts.stock.overdue(activityId, {
      lateMs: LATE_MS,
    }))
      this.#add(
        'batch-overdue',
        batchId,
        `batch ${batchId} is ${Math.round(ageMs / 1000)} s old and neither settled nor closed`,
        'settle',
      )
  }

  /** Redis has the units back, but the outbox would offer them for ever. */
  async #releases(ref: SkuRef): Promise<void> {
    const { stock, orders, graceMs } = this.parts
    const olderThanMs = Math.min(graceMs, RELEASE_ROW_MS)
    const owed = await orders.owedReleases(ref, { olderThanMs, limit: MAX_RELEASES })
    const rows = owed.length === 0 ? [] : await orders.find(owed)
    if (rows.length === 0) return
    const records = await stock.reservations(ref, rows)
    if (records === 'not-warmed') return
    rows.forEach((row, i) => {
      const record = records[i]
      if (record && record.state !== 'released') return // told as release-owed
      this.found.add(
        findingOf({
          ...ref,
          kind: 'release-row-owed',
          subject: row.orderNo,
          userId: row.userId,
          evidence: `Redis: ${record ? 'released' : 'nothing'}; its release is still owed in the database`,
          repair: 'strike',
        }),
      )
    })
  }

  /** Numbers go back behind a CLOSED row only. */
  async #tombstones(ref: SkuRef, explained: ReadonlySet<string>): Promise<void> {
    const { stock, orders, signal } = this.parts
    for (let cursor: string | null = '0'; cursor !== null; ) {
      stopIfAborted(signal)
      const page: Awaited<ReturnType<ReconcilableStock['tombstones']>> = await stock.tombstones(
        ref,
        cursor,
      )
      const ids = page.numbers.filter((orderNo) => /^[!-{}~]{1,64}$/.test(orderNo))
      const rows = new Set((ids.length === 0 ? [] : await orders.find(ids)).map((r) => r.orderNo))
      for (const orderNo of page.numbers)
        if (!rows.has(orderNo) && !explained.has(orderNo))
          this.#add(
            'tombstone-alone',
            orderNo,
            'Redis: released, of nobody it remembers; database: no row',
          )
      cursor = page.next
    }
  }
}
