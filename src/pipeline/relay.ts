import { every } from '../core/background.js'
import * as check from '../core/check.js'
import { describe } from '../core/describe.js'
import { FlashSaleError } from '../core/errors.js'
import type { OrderBook, OwedRelease } from '../core/order-book.js'
import type { ActivityStore, Background } from '../core/ports.js'
import type { Queue } from '../core/queue.js'
import type { OwedBatch } from '../stock/owed.js'
import type { StockBucket } from '../stock/stock-bucket.js'
import { keysExpireAt } from '../stock/warm-up.js'
import { deliverTo } from './deliver.js'
import { settle } from './settle.js'

export interface RelayOptions {
  /** How often it looks, in ms. @defaultValue 1,000 */
  readonly everyMs?: number
  /** How long a batch or a release is its own before another relay may take it, in ms. @defaultValue 5,000 */
  readonly leaseMs?: number
  /** Deadline of one send, in ms. @defaultValue 500 */
  readonly sendTimeoutMs?: number
}

interface Parts {
  readonly stock: StockBucket
  readonly orders: OrderBook
  readonly queue: Queue
  readonly activities: ActivityStore
  readonly alert: (code: string, detail: { readonly [key: string]: unknown }) => void
}

const PAGE = 32

/**
 * Carries on what a crash, a lost message or a silent Redis left behind: sends owed batches again, closes those that
 * nobody confirmed for too long, and returns the units of closed orders. Any number of processes may run one.
 */
export class Relay implements Background {
  private readonly loop: Background
  private readonly leaseMs: number
  private readonly sendTimeoutMs: number

  constructor(
    private readonly parts: Parts,
    o: RelayOptions = {},
  ) {
    this.leaseMs = check.option(o.leaseMs, 'leaseMs', 5_000, 100, 3_600_000)
    this.sendTimeoutMs = check.option(o.sendTimeoutMs, 'sendTimeoutMs', 500, 1, 60_000)
    this.loop = every({
      everyMs: check.option(o.everyMs, 'everyMs', 1_000, 10, 60_000),
      work: (signal) => this.run(signal),
      onError: (error) => parts.alert('relay-failed', { error }),
    })
  }

  start(): Promise<void> {
    return this.loop.start()
  }

  stop(o?: { readonly drainMs?: number }): Promise<void> {
    return this.loop.stop(o)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  /** One round over all live activities. One that cannot be served does not hold up the others. */
  async run(signal: AbortSignal = new AbortController().signal): Promise<void> {
    for (const activityId of await this.parts.activities.live()) {
      if (signal.aborted) return
      try {
        await this.relayOwed(activityId, signal)
      } catch (error) {
        this.report(activityId, error)
      }
    }
    if (!signal.aborted) await this.returnUnits()
  }

  private async relayOwed(activityId: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      const owed = await this.parts.stock.takeOwed(activityId, {
        leaseMs: this.leaseMs,
        limit: PAGE,
      })
      for (const batch of owed) {
        if (signal.aborted) return
        if (batch.due === 'send') await this.send(batch)
        else await this.close(batch)
      }
      // Claimed batches are not due again before their lease ends, so this comes to an end.
      if (owed.length < PAGE) return
    }
  }

  private async send({ batch }: OwedBatch): Promise<void> {
    const deliver = deliverTo(this.parts.queue, this.parts.orders)
    const outcome = await deliver(batch, AbortSignal.timeout(this.sendTimeoutMs))
    await this.parts.stock.delivered(batch, outcome)
  }

  /** Nobody waits for ever: what has no row by now gets a CLOSED one, and only then its units go back. */
  private async close({ batch, bornAt }: OwedBatch): Promise<void> {
    const verdicts = await this.parts.orders.closeUnbooked(batch.reservations, 'lost')
    const lost = verdicts.filter((v) => v.status === 'closed' && v.fresh).map((v) => v.orderNo)
    if (lost.length > 0) this.parts.alert('lost-batch', { batchId: batch.batchId, bornAt, lost })
    await settle(this.parts.stock, this.parts.orders, [batch], verdicts)
  }

  private async returnUnits(): Promise<void> {
    const owed = await this.parts.orders.takeReleases({ limit: 256, leaseMs: this.leaseMs })
    const skus = new Map<string, OwedRelease[]>()
    for (const release of owed) {
      const key = `${release.reservation.activityId} ${release.reservation.skuId}`
      const releases = skus.get(key)
      if (releases) releases.push(release)
      else skus.set(key, [release])
    }
    for (const releases of skus.values()) await this.release(releases)
  }

  /** Releases of one SKU. One that Redis never takes must not keep the others back; Redis away keeps back all. */
  private async release(releases: readonly OwedRelease[]): Promise<void> {
    const { stock, orders } = this.parts
    const { activityId } = (releases[0] as OwedRelease).reservation
    try {
      if (await this.hasStockInRedis(activityId))
        await stock.move(
          releases.map(({ reservation, reason }) => ({ to: 'released', reservation, reason })),
        )
    } catch (error) {
      if (releases.length > 1 && error instanceof FlashSaleError && error.code === 'BAD_INPUT') {
        const middle = releases.length >> 1
        await this.release(releases.slice(0, middle))
        await this.release(releases.slice(middle))
        return
      }
      this.report(activityId, error)
      for (const orderNo of await orders.retryReleases(releases, describe(error)))
        this.parts.alert('release-parked', { activityId, orderNo, error })
      return
    }
    await orders.released(releases.map((r) => r.reservation.orderNo))
  }

  /** In strong mode the database alone has stock, and once the keys have expired there is nothing to give units back to. */
  private async hasStockInRedis(activityId: string): Promise<boolean> {
    const activity = await this.parts.activities.load(activityId)
    return activity !== null && activity.mode === 'queued' && Date.now() < keysExpireAt(activity)
  }

  /** An activity that is not warmed (not yet, or no more) has nothing to relay. */
  private report(activityId: string, error: unknown): void {
    if (error instanceof FlashSaleError && error.code === 'NOT_WARMED') return
    this.parts.alert('relay-failed', { activityId, error })
  }
}
