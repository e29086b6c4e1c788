import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { OrderBook } from '../core/order-book.js'
import type { ActivityControl, ActivityStore } from '../core/ports.js'
import type { Queue } from '../core/queue.js'
import type { Fences } from '../core/reconcile.js'
import type { Activity, Audit, DbNumbers, SaleState, SkuRef } from '../core/types.js'
import type { ActivityGate } from '../gate/activity-gate.js'
import type { SoldOutMark } from '../gate/sold-out-mark.js'
import { type RebuildRequest, type Rebuilt, rebuildSale } from '../reconcile/rebuild.js'
import type { StockBucket } from '../stock/stock-bucket.js'
import type { WarmUpResult } from '../stock/warm-up.js'
import type { Alert } from './alerts.js'

/** What an operator does to a sale. Each act is written down durably first, with its audit row, and then told to Redis. */
export class Levers {
  constructor(
    private readonly o: {
      readonly stock: StockBucket
      readonly orders: OrderBook
      readonly activities: ActivityStore
      readonly control: ActivityControl
      readonly queue: Queue
      readonly fences: Fences | undefined
      readonly gate: ActivityGate
      readonly mark: SoldOutMark
      readonly alert: Alert
    },
  ) {}

  async warmUp(activityId: string, audit: Audit): Promise<WarmUpResult> {
    check.audit(audit)
    const activity = await this.o.activities.load(check.keyId(activityId, 'activityId'))
    if (!activity)
      return check.fail('BAD_INPUT', 'activityId', 'of an activity in the store', activityId)
    // An activity in strong mode has no stock in Redis: the database alone decides.
    const isStrong = activity.mode === 'strong'
    if (!isStrong && (await this.isOtherVersionInUse(activity))) {
      this.o.alert('warm-up-refused', { activityId, status: 'version-in-use' })
      return { status: 'version-in-use' }
    }
    const expected = await this.o.orders.prepare(activity)
    if (isStrong) return { status: 'already-warm' }
    const { tokenEpoch } = await this.o.control.read(activityId)
    const result = await this.o.stock.warmUp(activity, expected, tokenEpoch)
    const { eviction } = await this.o.stock.standing(activity)
    if (eviction !== 'noeviction' && eviction !== 'unknown')
      this.o.alert('eviction-policy', { activityId, eviction })
    if (result.status === 'warmed') await this.control(activityId, 'stopped', audit)
    else if (result.status !== 'already-warm')
      this.o.alert('warm-up-refused', { activityId, ...result })
    return result
  }

  async control(
    activityId: string,
    to: SaleState,
    audit: Audit,
  ): Promise<{ readonly acknowledged: number; readonly of: number }> {
    const revision = await this.o.control.set(
      check.keyId(activityId, 'activityId'),
      check.oneOf(to, 'to', ['open', 'stopped']),
      check.audit(audit),
    )
    this.o.gate.forget(activityId)
    const heard = await this.o.stock.control(activityId, to, revision)
    return heard.acknowledged === 0 && (await this.isStrong(activityId))
      ? { acknowledged: 0, of: 0 }
      : heard
  }

  async revokeTokens(activityId: string, audit: Audit): Promise<number> {
    const id = check.keyId(activityId, 'activityId')
    const tokenEpoch = await this.o.control.revokeTokens(id, check.audit(audit))
    this.o.gate.forget(id)
    try {
      await this.o.stock.revokeTokens(id, tokenEpoch)
    } catch (error) {
      // Warm-up takes the epoch from the durable row, and strong mode has no other.
      if (!(error instanceof FlashSaleError && error.code === 'NOT_WARMED')) throw error
    }
    return tokenEpoch
  }

  async topUp(ref: SkuRef, units: number, operationId: string, audit: Audit): Promise<DbNumbers> {
    const numbers = await this.o.orders.topUp(ref, units, operationId, check.audit(audit))
    const activity = await this.o.activities.load(ref.activityId)
    if (activity?.mode !== 'strong') await this.o.stock.topUp(ref, units, operationId)
    if (activity) this.o.mark.clear(ref, activity.version)
    return numbers
  }

  async rebuild(activityId: string, audit: Audit, o: RebuildRequest = {}): Promise<Rebuilt> {
    const { fences, ...parts } = this.o
    const rebuilt = await rebuildSale(
      fences ? { ...parts, fences } : parts,
      activityId,
      audit,
      o,
    ).finally(() => this.o.gate.forget(activityId))
    const activity = await this.o.activities.load(activityId)
    if (activity) this.changed(activity)
    return rebuilt
  }

  /** An act on the sale changed what the copies of this process are of. */
  changed(activity: Activity): void {
    const { activityId, version, skus } = activity
    this.o.gate.forget(activityId)
    for (const { skuId } of skus) this.o.mark.clear({ activityId, skuId }, version)
  }

  /**
   * Before the database's terms are replaced: it does not know of what is held and still on its way, which would be closed
   * for its version.
   */
  private async isOtherVersionInUse(activity: Activity): Promise<boolean> {
    const { version, state, seq } = await this.o.stock.standing(activity)
    return version !== '' && version !== activity.version && (state === 'open' || seq > 0)
  }

  /** In strong mode the database alone has stock. */
  private async isStrong(activityId: string): Promise<boolean> {
    return (await this.o.activities.load(activityId))?.mode === 'strong'
  }
}
