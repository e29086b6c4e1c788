import { createHash } from 'node:crypto'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { Background, ConsumerState } from '../core/ports.js'
import type { Queue } from '../core/queue.js'
import type {
  Activity,
  Audit,
  Batch,
  DbNumbers,
  OrderResult,
  Refusal,
  SaleState,
  SkuRef,
  Submitted,
} from '../core/types.js'
import { ActivityGate } from '../gate/activity-gate.js'
import { type LayerCounts, RefusalCounters } from '../gate/refusal-counters.js'
import { SoldOutMark } from '../gate/sold-out-mark.js'
import { Winners } from '../gate/winners.js'
import { signedQueue } from '../queue/signed-queue.js'
import type { RebuildRequest, Rebuilt } from '../reconcile/rebuild.js'
import { KEEPER } from '../reconcile/rebuild-stop.js'
import { StockBucket } from '../stock/stock-bucket.js'
import type { WarmUpResult } from '../stock/warm-up.js'
import { Admission, claims } from './admission.js'
import { type Alert, alerts } from './alerts.js'
import { deliverTo } from './deliver.js'
import { type GuardianOptions, RedisGuardian } from './guardian.js'
import { Levers } from './levers.js'
import type { Buyer, FlashSaleOptions, SubmitRequest } from './options.js'
import { Purchase } from './purchase.js'
import { Relay, type RelayOptions } from './relay.js'
import { resultOf } from './result.js'
import { Worker, type WorkerOptions } from './worker.js'

/** Winners of an SKU that a process remembers, about 10 MB; of more the sold-out mark speaks to all alike. */
const MAX_WINNERS = 100_000

/**
 * The whole sale assembled from the primitives: refuse early, deduct, enqueue, confirm. It is the reference recipe; a
 * host that needs another wires the same primitives itself (see examples/koa).
 */
export class FlashSale implements Background {
  readonly stock: StockBucket
  private readonly queue: Queue
  private readonly gate: ActivityGate
  private readonly mark: SoldOutMark
  private readonly counters = new RefusalCounters()
  private readonly admission: Admission
  private readonly levers: Levers
  private readonly purchase: Purchase
  private readonly alert: Alert
  private readonly background: Background[] = []
  private readonly graceMs: number
  private stopping: Promise<void> | null = null

  constructor(private readonly o: FlashSaleOptions) {
    check.object(o, 'options')
    for (const name of ['queue', 'orders', 'activities', 'control'] as const)
      if (typeof o[name] !== 'object') check.fail('BAD_OPTION', `option ${name}`, 'given', o[name])
    this.alert = alerts(o.events)
    this.graceMs = check.option(o.graceMs, 'graceMs', 600_000, 0, 86_400_000)
    this.queue = o.messageKeys
      ? signedQueue(o.queue, { keys: o.messageKeys, onForged: this.setAside })
      : o.queue
    this.stock = new StockBucket({
      ...o.stock,
      redis: o.redis,
      deliver: deliverTo(this.queue, o.orders),
      onError: (error) => this.alert('stock-error', { error }),
    })
    this.gate = new ActivityGate({
      activities: o.activities,
      control: o.control,
      ...(o.refreshMs === undefined ? {} : { refreshMs: o.refreshMs }),
      onError: (error) => this.alert('activity-unread', { error }),
    })
    this.mark = new SoldOutMark(o.soldOutMs === undefined ? {} : { ttlMs: o.soldOutMs })
    if (o.backpressure) this.background.push(o.backpressure)
    const winners = new Winners({
      load: (ref) => this.stock.buyers(ref, MAX_WINNERS),
      stamp: (ref) => this.stock.lastSeen(ref.activityId),
    })
    const { gate, mark, counters } = this
    const { backpressure, limiter, risk, tokens, events } = o
    this.admission = new Admission({
      ...{ gate, mark, winners, counters },
      ...{ backpressure, limiter, risk, tokens, events },
    })
    const { stock, alert } = this
    const { orders, activities, control, fences } = o
    const { queue } = this
    this.levers = new Levers({
      ...{ stock, orders, activities, control, queue, fences, gate, mark, alert },
    })
    const stop = (activityId: string, reason: string) =>
      this.control(activityId, 'stopped', { actor: KEEPER, reason })
    this.purchase = new Purchase({ stock, orders, gate, stop, alert })
  }

  /** What each layer has let pass and refused in this process. */
  refusals(): Readonly<Record<string, LayerCounts>> {
    return this.counters.snapshot()
  }

  /**
   * Prepares the database's stock rows, then Redis, and compares the two. Leaves the sale stopped; opening it is an act of
   * its own. Repeat it as often as you like: it never resets a sale.
   */
  warmUp(activityId: string, audit: Audit): Promise<WarmUpResult> {
    return this.levers.warmUp(activityId, audit)
  }

  /** Opens or stops: the durable row first, then Redis. `acknowledged` of `of` buckets heard it, and of no later act before. */
  control(
    activityId: string,
    to: SaleState,
    audit: Audit,
  ): Promise<{ readonly acknowledged: number; readonly of: number }> {
    return this.levers.control(activityId, to, audit)
  }

  /**
   * Freezes the workers of all processes, or lets them go on, within `refreshMs`. Deductions go on until the watermark is
   * reached; what waits longer than `closeAfterMs` is closed, frozen or not.
   */
  consumers(to: ConsumerState, audit: Audit): Promise<void> {
    return this.o.control.setConsumers(to, audit)
  }

  /** Revokes all tokens issued so far: the durable row first, then Redis. Returns the new token epoch. */
  revokeTokens(activityId: string, audit: Audit): Promise<number> {
    return this.levers.revokeTokens(activityId, audit)
  }

  /**
   * Adds or withdraws units once per operation id: the database first, then Redis. Repeat it with the same id when Redis
   * did not answer. Returns the database's numbers.
   */
  topUp(ref: SkuRef, units: number, operationId: string, audit: Audit): Promise<DbNumbers> {
    return this.levers.topUp(ref, units, operationId, audit)
  }

  /**
   * Makes Redis anew from the database after it was lost or went back in time: stops, waits for the queue a bounded time,
   * rebuilds and compares; opens again only if `reopen` asks for it and the sale was open. Other processes hear of it
   * within a second.
   *
   * @throws FlashSaleError `BAD_INPUT` also for an activity in strong mode; whatever Redis and the stores throw: repeat it
   */
  rebuild(activityId: string, audit: Audit, o: RebuildRequest = {}): Promise<Rebuilt> {
    return this.levers.rebuild(activityId, audit, o)
  }

  /** Issues the buyer's token once the risk hook lets him pass; also before the sale opens. */
  async token(
    activityId: string,
    buyer: Buyer,
  ): Promise<{ readonly status: 'issued'; readonly token: string } | Refusal> {
    const id = check.keyId(activityId, 'activityId')
    const userId = buyerId(buyer)
    const known = await this.gate.look(id)
    const who = { activityId: id, skuId: '', userId }
    if ('status' in known) return this.admission.refused('gate', known, who)
    if (Date.now() >= known.activity.endsAt)
      return this.admission.refused('gate', { status: 'ended' }, who)
    const refused = await this.admission.token(buyer, who)
    if (refused) return refused
    if (!this.o.tokens) return check.fail('BAD_OPTION', 'option tokens', 'a TokenIssuer', undefined)
    const terms = { expiresAt: known.activity.endsAt, epoch: known.control.tokenEpoch }
    return { status: 'issued', token: await this.o.tokens.issue(claims(id, userId, buyer), terms) }
  }

  /**
   * One click: refused early, or a unit deducted and its order on the way to the database. `queued` is not yet success:
   * that is what {@link result} says once the database has confirmed.
   *
   * @throws FlashSaleError `BAD_INPUT`, `REDIS_REFUSED`, `CORRUPT`, `STOPPED`; in strong mode also `DB_BUSY`, `DB_UNAVAILABLE`,
   *   with stored tokens `REDIS_UNAVAILABLE`; `BAD_OPTION` where tokens are required and no `tokens` were given
   */
  async submit(request: SubmitRequest): Promise<Submitted> {
    check.object(request, 'request')
    const ref = check.skuRef(request)
    const userId = buyerId(request.buyer)
    const quantity =
      request.quantity === undefined ? 1 : check.int(request.quantity, 'quantity', 1, 1_000)
    if (this.stopping) throw new FlashSaleError('STOPPED', 'this FlashSale was stopped')
    const who = { ...ref, userId }
    const admitted = await this.admission.submit(request, who, quantity)
    if ('status' in admitted) return admitted
    const { known, mayHaveWon, token } = admitted
    let asked = false
    const take = (): Promise<Submitted> => {
      asked = true
      return known.activity.mode === 'strong'
        ? this.purchase.buy(known, { ...request, quantity }, userId)
        : this.purchase.deduct(known, { ...request, quantity }, userId, token)
    }
    const outcome = mayHaveWon
      ? await take()
      : await this.mark.through<Submitted>(ref, known.activity.version, take)
    if ('replayed' in outcome || outcome.status === 'unknown') {
      this.admission.passed('stock')
      return outcome
    }
    return this.admission.refused(asked ? 'stock' : 'mark', outcome, who)
  }

  /**
   * What became of a buyer's order. Asked by buyer, so that nobody reads another's.
   *
   * @param q `orderNo` asks for one number of his and may reach the database; one that nobody knows past `graceMs` is closed
   *   by it, which writes: a route that passes buyers' numbers on needs a limit
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
    const { queue, stock, alert } = this
    const { redis, orders, control, refreshMs = 1_000 } = this.o
    const consumers = () => control.readConsumers()
    const worker = new Worker({ redis, stock, orders, queue, consumers, refreshMs, alert }, o)
    this.background.push(worker)
    return worker
  }

  /** Carries on what crashes and lost messages left behind. Every installation needs at least one. */
  relay(o: RelayOptions = {}): Relay {
    const { orders, activities } = this.o
    const { queue } = this
    const relay = new Relay({ stock: this.stock, orders, queue, activities, alert: this.alert }, o)
    this.background.push(relay)
    return relay
  }

  /** Carries the sales over a loss of Redis. Runs once {@link start} was called; one of all processes acts. */
  guardian(o: GuardianOptions): RedisGuardian {
    const { stock, queue, alert, levers } = this
    const { orders, activities, control, fences } = this.o
    const parts = { stock, orders, activities, control, queue, alert }
    const changed = (activity: Activity) => levers.changed(activity)
    const guardian = new RedisGuardian({ ...parts, ...(fences ? { fences } : {}), changed }, o)
    this.background.push(guardian)
    return guardian
  }

  /**
   * What to do with a message that a queue set aside: an alert, and a task for a person. For the `onDead` of a queue.
   * Its batch stays watched in Redis until it is confirmed or closed, so nothing is lost with it.
   */
  readonly setAside = (message: Batch | string, why: string): void => {
    const ref = typeof message === 'string' ? sha1(message) : message.batchId
    this.alert('dead-message', { ref, why })
    const text = typeof message === 'string' ? message : JSON.stringify(message)
    const detail = { why, bytes: Buffer.byteLength(text), beginning: text.slice(0, 10_000) }
    this.o.orders
      .addManualTask({ kind: 'dead-message', ref, detail })
      .catch((error: unknown) => this.alert('manual-task-failed', { ref, error }))
  }

  /** Starts the queue, and the workers, relays and guardians made so far. */
  async start(): Promise<void> {
    const { fences, activities } = this.o
    // This process has seen nothing of Redis yet; others have, and a Redis that knows less than they saw sells nothing.
    if (fences)
      for (const id of await activities.live()) this.stock.expect(id, await fences.read(id))
    await this.queue.start()
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
    await this.queue.stop(o)
  }
}

function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex')
}

function buyerId(buyer: Buyer): string {
  check.object(buyer, 'buyer')
  return check.userIdOf(buyer.userId)
}
