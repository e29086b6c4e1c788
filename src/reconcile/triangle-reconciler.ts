import { randomUUID } from 'node:crypto'
import * as check from '../core/check.js'
import type { OrderBook } from '../core/order-book.js'
import type { ActivityControl, ActivityStore, FlashSaleEvents } from '../core/ports.js'
import { quiet } from '../core/quiet.js'
import type { FindingLog, PaymentRecords, ReconcilableStock } from '../core/reconcile.js'
import type { Activity } from '../core/types.js'
import { FindingList } from './finding-list.js'
import type { Finding, Repaired, Report, Triangle } from './findings.js'
import { findingsOf } from './input.js'
import { redisNumbers } from './numbers.js'
import { PaymentComparison } from './payments.js'
import { Repairs } from './repairs.js'
import { SkuComparison } from './sku-comparison.js'
import { Upkeep } from './upkeep.js'
import { WaitingSince } from './waiting-since.js'

/** How far a run is. */
export interface ReconcileProgress {
  readonly activityId: string
  readonly skuId: string
  readonly reading: 'records' | 'orders'
  /** Read so far of this SKU on this side; a second walk over the records counts on. */
  readonly rows: number
}

export interface TriangleReconcilerOptions {
  /** A StockBucket. */
  readonly stock: ReconcilableStock
  readonly orders: OrderBook
  readonly activities: ActivityStore
  /** The durable row behind stop and open, to be compared too. */
  readonly control?: Pick<ActivityControl, 'read'>
  /** Payments, to be compared too. */
  readonly payments?: PaymentRecords
  /** Where findings are remembered across runs. */
  readonly log?: FindingLog
  /** Told of differences: alerts `difference` and `difference-manual`. */
  readonly events?: Pick<FlashSaleEvents, 'onAlert'>
  /** Told page by page how far a run is. */
  readonly onProgress?: (progress: ReconcileProgress) => void
  /** How long a difference may be work on its way, in ms. @defaultValue 600,000, the time after which a batch is closed */
  readonly graceMs?: number
  /** How long Redis may hear of a commit later, in ms: what stands after it is a difference. @defaultValue 1,000 */
  readonly settleMs?: number
  /** Units that may differ without an alert. @defaultValue 0 (the source's rule) */
  readonly alertUnits?: number
  /** Difference per sellable unit without an alert; the stricter of the two rules. @defaultValue 0.0005 (the source's 0.05 %) */
  readonly alertRate?: number
}

export interface RepairOptions {
  readonly signal?: AbortSignal
  /** Asked before each write; false ends the repair with `STOPPED`. For whoever holds a lease. */
  readonly mayWrite?: () => Promise<boolean>
}

/**
 * Compares physical stock, Redis and orders, number by number, and repairs by the normal idempotent moves, never by setting
 * a counter. Orders on their way are told apart from losses, so it may run while the sale does.
 */
export class TriangleReconciler {
  readonly #o: TriangleReconcilerOptions
  readonly #graceMs: number
  readonly #settleMs: number
  readonly #alertUnits: number
  readonly #alertRate: number
  readonly #alert: (code: string, detail: { readonly [key: string]: unknown }) => void
  readonly #progress: (progress: ReconcileProgress) => void
  readonly #waiting: WaitingSince

  constructor(o: TriangleReconcilerOptions) {
    check.object(o, 'options')
    for (const name of ['stock', 'orders', 'activities'] as const)
      if (typeof o[name] !== 'object' || o[name] === null)
        check.fail('BAD_OPTION', `option ${name}`, 'given', o[name])
    for (const name of ['control', 'payments', 'log', 'events'] as const)
      if (o[name] !== undefined && (typeof o[name] !== 'object' || o[name] === null))
        check.fail('BAD_OPTION', `option ${name}`, 'an object', o[name])
    this.#o = o
    this.#graceMs = check.option(o.graceMs, 'graceMs', 600_000, 0, 86_400_000)
    this.#settleMs = check.option(o.settleMs, 'settleMs', 1_000, 0, 60_000)
    this.#alertUnits = check.option(o.alertUnits, 'alertUnits', 0, 0, check.MAX_UNITS)
    this.#alertRate = rate(o.alertRate ?? 0.0005)
    this.#alert = quiet('events.onAlert', o.events?.onAlert, o.events)
    this.#progress = quiet('onProgress', o.onProgress)
    this.#waiting = new WaitingSince(this.#graceMs)
  }

  /**
   * Reads only, beside what the log writes down. Raises the alert `difference` by the rule of `alertUnits` and `alertRate`.
   *
   * @throws FlashSaleError `BAD_INPUT` for an activity that the store does not have; `NOT_WARMED`; `STOPPED` when the signal
   *   aborts; what the book throws, also for a server that takes no writes
   */
  async inspect(activityId: string, signal?: AbortSignal): Promise<Report> {
    const activity = await this.#o.activities.load(check.keyId(activityId, 'activityId'))
    if (!activity)
      return check.fail('BAD_INPUT', 'activityId', 'of an activity in the store', activityId)
    const run = randomUUID()
    const found = new FindingList()
    const triangles = await this.#compare(activity, found, signal)
    const report = this.#report(activityId, run, triangles, found)
    await this.#o.log?.seen({ activityId, run, complete: !report.truncated }, report.findings)
    const { difference, rate, counts } = report
    if (report.alert) this.#alert('difference', { activityId, run, difference, rate, counts })
    return report
  }

  /**
   * Looks at each finding again and repairs what still stands. What no move can repair becomes a manual task and the alert
   * `difference-manual`. A second run finds all of them `gone`, or still `manual`.
   *
   * @throws FlashSaleError `BAD_INPUT`, before anything is done; `STOPPED` when the signal aborts or `mayWrite` says no
   */
  async repair(findings: readonly Finding[], o: RepairOptions = {}): Promise<readonly Repaired[]> {
    const checked = findingsOf(findings)
    check.object(o, 'options')
    const repairs = new Repairs({
      stock: this.#o.stock,
      orders: this.#o.orders,
      control: this.#o.control,
      signal: o.signal,
      mayWrite: o.mayWrite ?? (async () => true),
      onManual: ({ activityId, skuId, id, kind, evidence }) =>
        this.#alert('difference-manual', { activityId, skuId, id, kind, evidence }),
    })
    const outcomes = await repairs.run(checked)
    for (const activityId of new Set(checked.map((f) => f.activityId))) {
      const ids = new Set(checked.filter((f) => f.activityId === activityId).map((f) => f.id))
      await this.#o.log?.settled(
        activityId,
        outcomes.filter((outcome) => ids.has(outcome.id)),
      )
    }
    return outcomes
  }

  async #compare(
    activity: Activity,
    found: FindingList,
    signal: AbortSignal | undefined,
  ): Promise<readonly Triangle[]> {
    const { stock, orders, control, payments } = this.#o
    const { activityId, skus } = activity
    const parts = { stock, orders, graceMs: this.#graceMs, settleMs: this.#settleMs, signal }
    const triangles: Triangle[] = []
    const withoutClosing = new Set<string>()
    let heldOrders = 0
    const waitingBefore = await this.#waitingOrders(activity)
    this.#waiting.begin()
    for (const { skuId } of skus) {
      const ref = { activityId, skuId }
      const money = payments
        ? new PaymentComparison({ ...parts, payments, waiting: this.#waiting }, ref, found)
        : undefined
      const rows = { records: 0, orders: 0 }
      const comparison = new SkuComparison(
        {
          ...parts,
          ...(money ? { onOrder: (row) => money.onOrder(row) } : {}),
          onRows: (reading, n) => {
            rows[reading] += n
            this.#progress({ ...ref, reading, rows: rows[reading] })
          },
        },
        ref,
        found,
      )
      const triangle = await comparison.run()
      if (triangle) triangles.push(triangle)
      heldOrders += comparison.heldOrders
      for (const orderNo of comparison.withoutClosing) withoutClosing.add(orderNo)
      await money?.run()
    }
    const waiting = await this.#waitingOrders(activity)
    const quiet =
      waiting === waitingBefore &&
      triangles.length === skus.length &&
      triangles.every((t) => t.sumsCompared)
    await new Upkeep({ ...parts, control }, activity, found).run({
      heldOrders,
      waiting: quiet ? waiting : null,
      withoutClosing,
    })
    return triangles
  }

  async #waitingOrders({ activityId, skus }: Activity): Promise<number | null> {
    const [sku] = skus
    if (!sku) return null
    const numbers = await redisNumbers(this.#o.stock, { activityId, skuId: sku.skuId })
    return numbers === 'corrupt' ? null : numbers.waiting
  }

  #report(
    activityId: string,
    run: string,
    triangles: readonly Triangle[],
    found: FindingList,
  ): Report {
    const physical = triangles.reduce((sum, t) => sum + t.physical, 0)
    const difference = found.units
    const rate = physical === 0 ? 0 : difference / physical
    // What is about no unit (a stop that Redis does not know) cannot be outweighed by units that agree.
    const uncountable = found.listed.some((f) => f.units === 0)
    return {
      activityId,
      run,
      at: Date.now(),
      triangles,
      findings: found.listed,
      counts: found.counts,
      truncated: found.truncated,
      difference,
      rate,
      alert: difference > this.#alertUnits || rate > this.#alertRate || uncountable,
    }
  }
}

function rate(value: number): number {
  if (typeof value === 'number' && value >= 0 && value <= 1) return value
  return check.fail('BAD_OPTION', 'option alertRate', 'a number from 0 to 1', value)
}
