import * as check from '../core/check.js'
import type { RedisLike } from '../core/ports.js'
import { quiet } from '../core/quiet.js'
import type { Batch, Delivered } from '../core/types.js'

export interface StockBucketOptions {
  /** An ioredis client (5 or 6, also Cluster). The host opens and closes it. */
  readonly redis: RedisLike
  /**
   * Sends a batch to the queue; called once for each batch that took units, several at a time.
   *
   * `'nothing-owed'` records no message: then a crash between the deduction and the host's own next step leaves units
   * held by reservations that nobody carries on, until a reconciler finds them in the ledger.
   */
  readonly deliver: 'nothing-owed' | ((batch: Batch, signal: AbortSignal) => Promise<Delivered>)
  /** Calls in one script. @defaultValue 256, which stays under 1 ms of Lua */
  readonly maxBatch?: number
  /** Bytes of one message. @defaultValue 262,144 */
  readonly maxBatchBytes?: number
  /** Calls of one SKU that may wait for the batch before them; beyond it `busy` without I/O. @defaultValue 2,000 */
  readonly maxWaiting?: number
  /** How long they may wait, in ms. @defaultValue 200 */
  readonly maxWaitMs?: number
  /** Deadline of one script, in ms; past it the outcome is `unknown`. @defaultValue 1,000 */
  readonly timeoutMs?: number
  /** Batches on their way to the queue at once. @defaultValue 16 */
  readonly maxDeliveries?: number
  /** Deadline of one delivery, in ms; past it the outcome is `unknown`. @defaultValue 500 (the source's send timeout) */
  readonly deliverTimeoutMs?: number
  /** How long a batch may be unconfirmed before its held numbers are to be closed, in ms. @defaultValue 600,000 */
  readonly closeAfterMs?: number
  /**
   * Told of what went wrong where no caller hears of it: a delivery that threw, a batch whose message cannot be read (it
   * stays owed), a batch that lost its message.
   */
  readonly onError?: (error: unknown) => void
}

/** @throws FlashSaleError `BAD_OPTION` */
export function settingsOf(o: StockBucketOptions) {
  check.object(o, 'options')
  if (typeof o.redis?.evalsha !== 'function' || typeof o.redis.eval !== 'function')
    check.fail('BAD_OPTION', 'option redis', 'a client with evalsha and eval', o.redis)
  if (o.deliver !== 'nothing-owed' && typeof o.deliver !== 'function')
    check.fail('BAD_OPTION', 'option deliver', "a function or 'nothing-owed'", o.deliver)
  const deliverTimeoutMs = check.option(o.deliverTimeoutMs, 'deliverTimeoutMs', 500, 1, 60_000)
  return {
    redis: o.redis,
    timeoutMs: check.option(o.timeoutMs, 'timeoutMs', 1_000, 1, 60_000),
    closeAfterMs: check.option(o.closeAfterMs, 'closeAfterMs', 600_000, 1_000, 86_400_000),
    onError: quiet('onError', o.onError),
    deliver: o.deliver,
    deliverTimeoutMs,
    // The sender's own attempt comes first; the relay takes over well after its deadline.
    owedAfterMs: deliverTimeoutMs + 1_500,
    maxBatch: check.option(o.maxBatch, 'maxBatch', 256, 1, 1_000),
    maxBatchBytes: check.option(o.maxBatchBytes, 'maxBatchBytes', 262_144, 2_048, 262_144),
    maxWaiting: check.option(o.maxWaiting, 'maxWaiting', 2_000, 1, 1_000_000),
    maxWaitMs: check.option(o.maxWaitMs, 'maxWaitMs', 200, 1, 60_000),
    maxDeliveries: check.option(o.maxDeliveries, 'maxDeliveries', 16, 1, 1_000),
  }
}
