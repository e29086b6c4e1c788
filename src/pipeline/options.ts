import type { OrderBook } from '../core/order-book.js'
import type { ActivityControl, ActivityStore, FlashSaleEvents, RedisLike } from '../core/ports.js'
import type { Queue } from '../core/queue.js'
import type { Fences } from '../core/reconcile.js'
import type { Json, SkuRef } from '../core/types.js'
import type { BackpressureGate } from '../gate/backpressure-gate.js'
import type { RateLimiter } from '../gate/rate-limiter.js'
import type { MessageKey } from '../queue/message-mac.js'
import type { StockBucketOptions } from '../stock/options.js'
import type { TokenIssuer } from '../token/token-issuer.js'

/** Who buys, from the host's session and connection; never from the body of the request. */
export interface Buyer {
  readonly userId: string | bigint
  readonly ip: string
  readonly deviceId?: string
}

export interface SubmitRequest extends SkuRef {
  readonly buyer: Buyer
  readonly token?: string | undefined
  /** @defaultValue 1 */
  readonly quantity?: number
  /** At most 1,024 bytes of JSON; handed to `onConfirm` of the order book. */
  readonly payload?: Json
  readonly signal?: AbortSignal
}

export interface RiskQuestion {
  readonly step: 'token' | 'submit'
  readonly activityId: string
  readonly buyer: Buyer
}

export interface FlashSaleOptions {
  readonly redis: RedisLike
  readonly queue: Queue
  readonly orders: OrderBook
  readonly activities: ActivityStore
  readonly control: ActivityControl
  /**
   * Where the guardian keeps how far Redis has come, and what a starting process reads of it: without it a Redis that went
   * back in time while all processes were down is not noticed by the fence.
   */
  readonly fences?: Fences
  /** May be left out where every activity has `tokens: 'off'`. */
  readonly tokens?: TokenIssuer
  /** Captcha, fingerprint, blocklist: asked before anything that touches stock. A throw refuses nobody; it is thrown on. */
  readonly risk?: (question: RiskQuestion) => Promise<'pass' | { readonly deny: string }>
  /** With keys, every message carries a MAC and every consumer checks it; see {@link signedQueue}. */
  readonly messageKeys?: readonly MessageKey[]
  /** Limits by the names `submit` and `token`; a name without rules has no limit. */
  readonly limiter?: RateLimiter
  /** Started and stopped with the sale. Refuses new deductions while what is behind them is too far behind. */
  readonly backpressure?: BackpressureGate
  /**
   * How long "sold out" is answered from memory before one caller asks Redis again, in ms; 0 asks for everybody. Winners
   * who repeat their click are known, up to 100,000 of an SKU, and hear their order number.
   *
   * @defaultValue 250
   */
  readonly soldOutMs?: number
  readonly events?: FlashSaleEvents
  /** Tuning of the deduction; see {@link StockBucketOptions}. */
  readonly stock?: Omit<StockBucketOptions, 'redis' | 'deliver' | 'onError'>
  /** How old the process' copy of activity and stop row may be, in ms. @defaultValue 1,000 */
  readonly refreshMs?: number
  /** How long a number that neither Redis nor the database knows may still appear, in ms. @defaultValue 600,000 */
  readonly graceMs?: number
}
