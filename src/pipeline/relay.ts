import { every } from '../core/background.js'
import * as check from '../core/check.js'
import { describe } from '../core/describe.js'
import { FlashSaleError } from '../core/errors.js'
import { inLanes } from '../core/lanes.js'
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

interface Round {
  readonly signal: AbortSignal
  /** Sends that no answer came to. */
  silent: number
}

const PAGE = 32
/** Sends at a time of one activity, and activities at a time. */
const LANES = 8
/** After so many sends without an answer a round tries no more: each of them costs its whole deadline. */
const SILENT = 8

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

  /** One round over all live activities. One that cannot be served does not hold up the others, nor the releases. */
  async run(signal: AbortSignal = new AbortController().signal): Promise<void> {
    const round: Round = { signal, silent: 0 }
    const activities = await this.parts.activities.live()
    await allEnded([
      ...inLanes(LANES, activities, (activityId) => this.relayOwed(activityId, round)),
      this.returnUnits(),
    ])
  }

  /**
   * Ends at the latest one lease after it began, and a page more: so it never meets again what it claimed itself. What it
   * did not claim is still due, and before that, in the next round.
   */
  private async relayOwed(activityId: string, round: Round): Promise<void> {
    const until = performance.now() + this.leaseMs
    try {
      for (let more = true; more && !round.signal.aborted && performance.now() < until; ) {
        const owed = await this.parts.stock.takeOwed(activityId, {
          leaseMs: this.leaseMs,
          limit: PAGE,
        })
        more = owed.length === PAGE
        await this.relayPage(owed, round)
      }
    } catch (error) {
      this.report(activityId, error)
    }
  }

  /** Several sends at a time, closings one after the other: those are what the database is spared. */
  private async relayPage(owed: readonly OwedBatch[], round: Round): Promise<void> {
    const sends = owed.filter((o) => o.due === 'send')
    const closings = owed.filter((o) => o.due === 'close')
    await allEnded([
      ...inLanes(LANES, sends, (batch) => this.send(batch, round)),
      ...inLanes(1, closings, (batch) => this.close(batch, round)),
    ])
  }

  /** A batch that is not sent because the broker is silent comes again after its lease. */
  private async send({ batch }: OwedBatch, round: Round): Promise<void> {
    if (round.signal.aborted || round.silent >= SILENT) return
    const deliver = deliverTo(this.parts.queue, this.parts.orders)
    const deadline = AbortSignal.timeout(this.sendTimeoutMs)
    const outcome = await deliver(batch, deadline)
    if (outcome === 'unknown' && deadline.aborted) round.silent++
    await this.parts.stock.delivered(batch, outcome)
  }

  /** Nobody waits for ever: what has no row by now gets a CLOSED one, and only then its units go back. */
  private async close({ batch, bornAt }: OwedBatch, round: Round): Promise<void> {
    if (round.signal.aborted) return
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

/** Throws what was thrown first, but not before all have ended: nothing of a round goes on into the next. */
async function allEnded(works: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(works)
  await Promise.all(works)
}
