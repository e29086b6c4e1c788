import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import { newOrderNo } from '../core/order-no.js'
import type {
  ActivityControl,
  ActivityStore,
  Background,
  FlashSaleEvents,
  OrderBook,
  Queue,
  RedisLike,
} from '../core/ports.js'
import type {
  Audit,
  DbNumbers,
  Json,
  OrderResult,
  Refusal,
  Reservation,
  SaleState,
  SkuRef,
  Submitted,
  TokenProof,
} from '../core/types.js'
import { ActivityGate, type KnownActivity } from '../gate/activity-gate.js'
import { StockBucket, type StockBucketOptions } from '../stock/stock-bucket.js'
import type { WarmUpResult } from '../stock/warm-up.js'
import type { TokenIssuer } from '../token/token-issuer.js'
import { deliverTo } from './deliver.js'
import { Relay, type RelayOptions } from './relay.js'
import { resultOf } from './result.js'
import { Worker, type WorkerOptions } from './worker.js'

/** Alerts that one refused click would raise after the other. */
const PER_CLICK = new Set([
  'not-warmed',
  'script-mismatch',
  'rewound',
  'activity-unread',
  'stock-error',
])

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
  /** May be left out where every activity has `tokens: 'off'`. */
  readonly tokens?: TokenIssuer
  /** Captcha, fingerprint, blocklist: asked before anything that touches stock. A throw refuses nobody; it is thrown on. */
  readonly risk?: (question: RiskQuestion) => Promise<'pass' | { readonly deny: string }>
  readonly events?: FlashSaleEvents
  /** Tuning of the deduction; see {@link StockBucketOptions}. */
  readonly stock?: Omit<StockBucketOptions, 'redis' | 'deliver' | 'onError'>
  /** How old the process' copy of activity and stop row may be, in ms. @defaultValue 1,000 */
  readonly refreshMs?: number
  /** How long a number that neither Redis nor the database knows may still appear, in ms. @defaultValue 600,000 */
  readonly graceMs?: number
}

/**
 * The whole sale assembled from the primitives: refuse early, deduct, enqueue, confirm. It is the reference recipe; a
 * host that needs another wires the same primitives itself (see examples/koa).
 */
export class FlashSale implements Background {
  readonly stock: StockBucket
  private readonly gate: ActivityGate
  private readonly background: Background[] = []
  private readonly graceMs: number
  private readonly alertedAt = new Map<string, number>()
  private stopping: Promise<void> | null = null

  constructor(private readonly o: FlashSaleOptions) {
    check.object(o, 'options')
    for (const name of ['queue', 'orders', 'activities', 'control'] as const)
      if (typeof o[name] !== 'object') check.fail('BAD_OPTION', `option ${name}`, 'given', o[name])
    this.graceMs = check.option(o.graceMs, 'graceMs', 600_000, 0, 86_400_000)
    this.stock = new StockBucket({
      ...o.stock,
      redis: o.redis,
      deliver: deliverTo(o.queue, o.orders),
      onError: (error) => this.alert('stock-error', { error }),
    })
    this.gate = new ActivityGate({
      activities: o.activities,
      control: o.control,
      ...(o.refreshMs === undefined ? {} : { refreshMs: o.refreshMs }),
      onError: (error) => this.alert('activity-unread', { error }),
    })
  }

  /**
   * Prepares the database's stock rows, then Redis, and compares the two. Leaves the sale stopped; opening it is an act of
   * its own. Repeat it as often as you like: it never resets a sale.
   */
  async warmUp(activityId: string, audit: Audit): Promise<WarmUpResult> {
    check.audit(audit)
    const activity = await this.o.activities.load(check.keyId(activityId, 'activityId'))
    if (!activity)
      return check.fail('BAD_INPUT', 'activityId', 'of an activity in the store', activityId)
    const expected = await this.o.orders.prepare(activity)
    // An activity in strong mode has no stock in Redis: the database alone decides.
    if (activity.mode === 'strong') return { status: 'already-warm' }
    const { tokenEpoch } = await this.o.control.read(activityId)
    const result = await this.stock.warmUp(activity, expected, tokenEpoch)
    if (result.status === 'warmed') await this.control(activityId, 'stopped', audit)
    else if (result.status !== 'already-warm')
      this.alert('warm-up-refused', { activityId, ...result })
    return result
  }

  /** Opens or stops: the durable row first, then Redis. `acknowledged` of `of` buckets have heard it. */
  async control(
    activityId: string,
    to: SaleState,
    audit: Audit,
  ): Promise<{ readonly acknowledged: number; readonly of: number }> {
    await this.o.control.set(
      check.keyId(activityId, 'activityId'),
      check.oneOf(to, 'to', ['open', 'stopped']),
      check.audit(audit),
    )
    this.gate.forget(activityId)
    const heard = await this.stock.control(activityId, to)
    return heard.acknowledged === 0 && (await this.isStrong(activityId))
      ? { acknowledged: 0, of: 0 }
      : heard
  }

  /** Revokes all tokens issued so far: the durable row first, then Redis. Returns the new token epoch. */
  async revokeTokens(activityId: string, audit: Audit): Promise<number> {
    const id = check.keyId(activityId, 'activityId')
    const tokenEpoch = await this.o.control.revokeTokens(id, check.audit(audit))
    this.gate.forget(id)
    try {
      await this.stock.revokeTokens(id, tokenEpoch)
    } catch (error) {
      // Warm-up takes the epoch from the durable row, and strong mode has no other.
      if (!(error instanceof FlashSaleError && error.code === 'NOT_WARMED')) throw error
    }
    return tokenEpoch
  }

  /**
   * Adds or withdraws units once per operation id: the database first, then Redis. Repeat it with the same id when Redis
   * did not answer. Returns the database's numbers.
   */
  async topUp(ref: SkuRef, units: number, operationId: string, audit: Audit): Promise<DbNumbers> {
    const numbers = await this.o.orders.topUp(ref, units, operationId, check.audit(audit))
    if (!(await this.isStrong(ref.activityId))) await this.stock.topUp(ref, units, operationId)
    return numbers
  }

  /** Issues the buyer's token once the risk hook lets him pass; also before the sale opens. */
  async token(
    activityId: string,
    buyer: Buyer,
  ): Promise<{ readonly status: 'issued'; readonly token: string } | Refusal> {
    const id = check.keyId(activityId, 'activityId')
    const userId = buyerId(buyer)
    const known = await this.gate.look(id)
    const refused = (refusal: Refusal) =>
      this.refused('token', refusal, { activityId: id, skuId: '', userId })
    if ('status' in known) return refused(known)
    if (Date.now() >= known.activity.endsAt) return refused({ status: 'ended' })
    const denied = await this.denied('token', id, buyer)
    if (denied) return refused(denied)
    if (!this.o.tokens) return check.fail('BAD_OPTION', 'option tokens', 'a TokenIssuer', undefined)
    const terms = { expiresAt: known.activity.endsAt, epoch: known.control.tokenEpoch }
    return { status: 'issued', token: await this.o.tokens.issue(claims(id, userId, buyer), terms) }
  }

  /**
   * One click: refused early, or a unit deducted and its order on the way to the database. `queued` is not yet success:
   * that is what {@link result} says once the database has confirmed.
   *
   * @throws FlashSaleError `BAD_INPUT`, `REDIS_REFUSED`, `CORRUPT`, `STOPPED`; in strong mode also `DB_BUSY`, `DB_UNAVAILABLE`
   */
  async submit(request: SubmitRequest): Promise<Submitted> {
    check.object(request, 'request')
    const ref = check.skuRef(request)
    const userId = buyerId(request.buyer)
    const quantity =
      request.quantity === undefined ? 1 : check.int(request.quantity, 'quantity', 1, 1_000)
    const look = this.gate.look(ref.activityId)
    const known = look instanceof Promise ? await look : look
    const who = { ...ref, userId }
    if ('status' in known) return this.refused('gate', known, who)
    const shut = this.gate.refusal(known, Date.now()) ?? unsuitable(known, ref.skuId, quantity)
    if (shut) return this.refused('gate', shut, who)
    const denied = await this.denied('submit', ref.activityId, request.buyer)
    if (denied) return this.refused('risk', denied, who)
    const token = await this.proof(known, userId, request)
    if (token && 'status' in token) return this.refused('token', token, who)
    const outcome =
      known.activity.mode === 'strong'
        ? await this.buy(known, { ...request, quantity }, userId)
        : await this.deduct(known, { ...request, quantity }, userId, token)
    if ('replayed' in outcome || outcome.status === 'unknown') return outcome
    return this.refused('stock', outcome, who)
  }

  /**
   * What became of a buyer's order. Asked by buyer, so that nobody reads another's.
   *
   * @param q `orderNo` asks for one number of his and may reach the database
   */
  async result(
    q: SkuRef & { readonly userId: string | bigint; readonly orderNo?: string },
  ): Promise<OrderResult> {
    check.object(q, 'query')
    const asked = {
      ...check.skuRef(q),
      userId: check.userIdOf(q.userId),
      orderNo: q.orderNo === undefined ? undefined : check.id(q.orderNo, 'orderNo'),
    }
    return resultOf(this.stock, this.o.orders, asked, this.graceMs)
  }

  /** Confirms what the queue brings, at most `ordersPerSecond`. Runs once {@link start} was called. */
  worker(o: WorkerOptions): Worker {
    const worker = new Worker(
      { stock: this.stock, orders: this.o.orders, queue: this.o.queue, alert: this.alert },
      o,
    )
    this.background.push(worker)
    return worker
  }

  /** Carries on what crashes and lost messages left behind. Every installation needs at least one. */
  relay(o: RelayOptions = {}): Relay {
    const { orders, queue, activities } = this.o
    const relay = new Relay({ stock: this.stock, orders, queue, activities, alert: this.alert }, o)
    this.background.push(relay)
    return relay
  }

  /** Starts the queue, and the workers and relays made so far. */
  async start(): Promise<void> {
    await this.o.queue.start()
    await Promise.all(this.background.map((b) => b.start()))
  }

  /** Takes no more requests, lets what was begun end (at most `drainMs`, default 5,000), and stops. Idempotent. */
  stop(o: { readonly drainMs?: number } = {}): Promise<void> {
    this.stopping ??= this.drain(o)
    return this.stopping
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  private async drain(o: { readonly drainMs?: number }): Promise<void> {
    await this.stock.stop(o)
    await Promise.all(this.background.map((b) => b.stop(o)))
    await this.o.queue.stop(o)
  }

  /** In strong mode the database alone has stock. */
  private async isStrong(activityId: string): Promise<boolean> {
    return (await this.o.activities.load(activityId))?.mode === 'strong'
  }

  private async denied(
    step: RiskQuestion['step'],
    activityId: string,
    buyer: Buyer,
  ): Promise<Refusal | null> {
    if (!this.o.risk) return null
    const verdict = await this.o.risk({ step, activityId, buyer })
    return verdict === 'pass' ? null : { status: 'denied', reason: verdict.deny }
  }

  private async proof(
    { activity, control }: KnownActivity,
    userId: string,
    request: SubmitRequest,
  ): Promise<TokenProof | Refusal | undefined> {
    if (activity.tokens === 'off') return undefined
    if (!this.o.tokens) return check.fail('BAD_OPTION', 'option tokens', 'a TokenIssuer', undefined)
    const verified = await this.o.tokens.verify(
      request.token,
      claims(activity.activityId, userId, request.buyer),
    )
    if (verified.status !== 'valid') return verified
    // The deduct script compares the epoch with Redis'; in strong mode this copy of the durable row is what there is.
    return verified.proof.issue < control.tokenEpoch ? { status: 'token-revoked' } : verified.proof
  }

  private async deduct(
    { activity }: KnownActivity,
    request: SubmitRequest,
    userId: string,
    token: TokenProof | undefined,
  ): Promise<Submitted> {
    const { activityId, skuId, quantity, payload, signal } = request
    const outcome = await this.stock.deduct({
      activityId,
      skuId,
      userId,
      version: activity.version,
      ...(quantity === undefined ? {} : { quantity }),
      ...(token ? { token } : {}),
      ...(payload === undefined ? {} : { payload }),
      ...(signal ? { signal } : {}),
    })
    if (outcome.status === 'reserved') {
      const { orderNo } = outcome.reservation
      return { status: 'queued', orderNo, replayed: outcome.replayed }
    }
    if (outcome.status === 'rewound') await this.closeRewound(activityId)
    else if (outcome.status === 'not-warmed' || outcome.status === 'script-mismatch')
      this.alert(outcome.status, { activityId, skuId })
    return outcome
  }

  /** Redis went back in time: what it would sell now may be sold already. Stop, and leave opening to a person. */
  private async closeRewound(activityId: string): Promise<void> {
    this.alert('rewound', { activityId })
    const look = await this.gate.look(activityId)
    if ('status' in look || look.control.state === 'stopped') return
    const audit = { actor: 'flash-sale-kit', reason: 'Redis went back in time (seq fence)' }
    try {
      await this.control(activityId, 'stopped', audit)
    } catch (error) {
      this.alert('stop-failed', { activityId, error })
    }
  }

  private async buy(
    { activity }: KnownActivity,
    request: SubmitRequest,
    userId: string,
  ): Promise<Submitted> {
    const { activityId, skuId, quantity = 1, payload } = request
    check.payloadText(payload)
    const reservation: Reservation = {
      orderNo: newOrderNo(),
      activityId,
      skuId,
      userId,
      quantity,
      bucket: 0,
      version: activity.version,
      reservedAt: Date.now(),
      ...(payload === undefined ? {} : { payload }),
    }
    try {
      const bought = await this.o.orders.buy(reservation)
      if (bought.status === 'confirmed')
        return { status: 'confirmed', orderNo: bought.orderNo, replayed: !bought.fresh }
      return bought.status === 'closed' ? { status: 'try-again' } : bought
    } catch (error) {
      if (error instanceof FlashSaleError && error.code === 'OUTCOME_UNKNOWN')
        return { status: 'unknown', orderNo: reservation.orderNo }
      throw error
    }
  }

  private refused(
    layer: string,
    refusal: Refusal,
    who: SkuRef & { readonly userId: string },
  ): Refusal {
    try {
      this.o.events?.onRefused?.(layer, refusal, who)
    } catch {
      // a host's counter must not fail a sale
    }
    return refusal
  }

  private readonly alert = (code: string, detail: { readonly [key: string]: unknown }): void => {
    // What a crowd sets off is said once a second: a pager must not hear every refused click.
    const topic = `${code} ${String(detail['activityId'] ?? '')}`
    const now = performance.now()
    if (
      PER_CLICK.has(code) &&
      now - (this.alertedAt.get(topic) ?? Number.NEGATIVE_INFINITY) < 1_000
    )
      return
    this.alertedAt.set(topic, now)
    try {
      this.o.events?.onAlert?.(code, detail)
    } catch {
      // nor its pager
    }
  }
}

function buyerId(buyer: Buyer): string {
  check.object(buyer, 'buyer')
  return check.userIdOf(buyer.userId)
}

function claims(activityId: string, userId: string, buyer: Buyer) {
  return buyer.deviceId === undefined
    ? { activityId, userId }
    : { activityId, userId, deviceId: buyer.deviceId }
}

/** What the activity itself rules out, whoever asks. */
function unsuitable({ activity }: KnownActivity, skuId: string, quantity: number): Refusal | null {
  if (!activity.skus.some((sku) => sku.skuId === skuId)) return { status: 'not-found' }
  if (quantity > activity.maxPerOrder)
    return { status: 'over-limit', maxPerOrder: activity.maxPerOrder }
  return null
}
