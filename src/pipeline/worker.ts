import { every } from '../core/background.js'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { OrderBook, Verdict } from '../core/order-book.js'
import type { Background, ConsumerState, RedisLike } from '../core/ports.js'
import type { Consumer, Delivery, Handled, Queue } from '../core/queue.js'
import type { Batch, Reservation } from '../core/types.js'
import { ClusterRateCap, LocalRateCap, type RateCap } from '../queue/rate-cap.js'
import type { StockBucket } from '../stock/stock-bucket.js'
import { settle } from './settle.js'

export interface WorkerOptions {
  /** Orders written to the database within any second, by all processes together: below what it can bear. */
  readonly ordersPerSecond: number
  /**
   * Processes whose workers name the same database share its `ordersPerSecond`, through the sale's Redis; null: this worker
   * counts alone.
   *
   * @defaultValue 'orders'
   */
  readonly database?: string | null
  /** This process' part of `ordersPerSecond` while Redis is away, more than 0, at most 1. @defaultValue 0.25, of four processes */
  readonly localShare?: number
  /** Messages in one hand-over, which are confirmed together. @defaultValue 16 */
  readonly maxBatches?: number
}

interface Parts {
  readonly redis: RedisLike
  readonly stock: StockBucket
  readonly orders: OrderBook
  readonly queue: Queue
  /** The durable switch of all workers, looked at every `refreshMs`. */
  readonly consumers: () => Promise<ConsumerState>
  readonly refreshMs: number
  readonly alert: (code: string, detail: { readonly [key: string]: unknown }) => void
}

/** One commit at most: larger groups gained nothing (17,400/s at 256, 21,000/s at 1,000) and hold the hot row longer. */
const MAX_COMMIT = 1_000
const MIN_COMMIT = 16
/** A commit that takes longer holds the hot row too long for the others; one well below has room for more orders. */
const SLOW_COMMIT_MS = 500
const QUICK_COMMIT_MS = 100

/** Confirms what the queue brings: one commit for many reservations, then Redis is told, then the message acknowledged. */
export class Worker implements Background {
  private readonly maxBatches: number
  private readonly maxCommit: number
  private readonly cap: RateCap
  /** Orders in one commit: halved after a slow one, doubled after quick ones. */
  private commitSize: number
  private readonly watch: Background
  private consumer: Consumer | null = null
  private paused = false
  /** Until the switch was read, nothing runs: where it cannot be read, nothing could be confirmed either. */
  private frozen = true
  private stopped = false

  constructor(
    private readonly parts: Parts,
    o: WorkerOptions,
  ) {
    check.object(o, 'options')
    if (o.ordersPerSecond === undefined)
      check.fail('BAD_OPTION', 'option ordersPerSecond', 'given', o.ordersPerSecond)
    const perSecond = check.option(o.ordersPerSecond, 'ordersPerSecond', 0, 1, 1_000_000)
    this.maxBatches = check.option(o.maxBatches, 'maxBatches', 16, 1, 1_000)
    const { database = 'orders', localShare = 0.25 } = o
    if (typeof localShare !== 'number' || !(localShare > 0 && localShare <= 1))
      check.fail('BAD_OPTION', 'option localShare', 'more than 0, at most 1', localShare)
    const alonePerSecond = Math.max(1, Math.floor(perSecond * localShare))
    this.maxCommit = Math.min(MAX_COMMIT, database === null ? perSecond : alonePerSecond)
    this.commitSize = this.maxCommit
    this.cap =
      database === null
        ? new LocalRateCap(perSecond)
        : new ClusterRateCap({
            redis: parts.redis,
            name: check.keyId(database, 'option database'),
            perSecond,
            alonePerSecond,
            onError: (error) => parts.alert('rate-cap-alone', { error }),
          })
    this.watch = every({
      everyMs: parts.refreshMs,
      work: async () => {
        this.frozen = (await parts.consumers()) === 'frozen'
        await this.obey()
      },
      onError: (error) => parts.alert('activity-unread', { error }),
    })
  }

  async start(): Promise<void> {
    if (this.stopped) throw new FlashSaleError('STOPPED', 'this worker was stopped')
    await this.watch.start()
  }

  /** Of this process' worker. Lets the commit that runs end; messages stay in the queue. */
  async pause(): Promise<void> {
    this.paused = true
    await this.obey()
  }

  /** Not while all workers are frozen: then it goes on when they do. */
  resume(): void {
    this.paused = false
    if (!this.frozen) this.consumer?.resume()
  }

  async stop(o?: { readonly drainMs?: number }): Promise<void> {
    this.stopped = true
    await this.watch.stop(o)
    await this.consumer?.stop()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  private async obey(): Promise<void> {
    if (this.stopped) return
    if (this.paused || this.frozen) await this.consumer?.pause()
    else if (this.consumer) this.consumer.resume()
    else
      this.consumer = this.parts.queue.consume((d) => this.handle(d), {
        maxBatches: this.maxBatches,
      })
  }

  private async handle({
    batches,
    attempt,
    signal,
  }: Delivery): Promise<Handled | readonly Handled[]> {
    let verdicts: readonly Verdict[] | null
    try {
      verdicts = await this.confirm(batches, signal)
    } catch (error) {
      this.parts.alert('confirm-failed', { attempt, error, batches: batches.map((b) => b.batchId) })
      if (!(error instanceof FlashSaleError && error.code === 'BAD_INPUT')) return 'retry'
      return batches.length === 1 ? 'dead' : this.oneByOne(batches, attempt, signal)
    }
    if (!verdicts) return 'retry'
    try {
      await settle(this.parts.stock, this.parts.orders, batches, verdicts)
    } catch (error) {
      // Decided is decided: the relay and the reconciler tell Redis later.
      this.parts.alert('redis-not-told', { error, batches: batches.map((b) => b.batchId) })
    }
    return 'ack'
  }

  /** One batch that no book can take must not take the others with it. */
  private async oneByOne(
    batches: readonly Batch[],
    attempt: number,
    signal: AbortSignal,
  ): Promise<readonly Handled[]> {
    const handled: Handled[] = []
    for (const batch of batches)
      handled.push((await this.handle({ batches: [batch], attempt, signal })) as Handled)
    return handled
  }

  /** Null when stopped before all was confirmed: what is confirmed is met again as it stands. */
  private async confirm(
    batches: readonly Batch[],
    signal: AbortSignal,
  ): Promise<readonly Verdict[] | null> {
    const reservations: Reservation[] = batches.flatMap((b) => b.reservations)
    const verdicts: Verdict[] = []
    for (let next = 0; next < reservations.length; ) {
      const some = reservations.slice(next, next + this.commitSize)
      next += some.length
      const written = await this.cap.take(some.length, signal)
      if (!written) return null
      const begun = performance.now()
      try {
        verdicts.push(...(await this.parts.orders.confirm(some, signal)))
      } finally {
        written()
        this.adapt(some.length, performance.now() - begun)
      }
    }
    return verdicts
  }

  private adapt(orders: number, ms: number): void {
    if (ms > SLOW_COMMIT_MS)
      this.commitSize = Math.min(this.maxCommit, Math.max(MIN_COMMIT, Math.ceil(orders / 2)))
    else if (ms < QUICK_COMMIT_MS && orders >= this.commitSize)
      this.commitSize = Math.min(this.maxCommit, this.commitSize * 2)
  }
}
