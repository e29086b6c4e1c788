import * as check from '../core/check.js'
import { Coalescer } from '../core/coalescer.js'
import { FlashSaleError } from '../core/errors.js'
import type { RedisLike } from '../core/ports.js'
import { quiet } from '../core/quiet.js'
import type { RateLimited } from '../core/types.js'
import { limitKeys } from '../redis/keys.js'
import { ScriptRunner } from '../redis/run-script.js'
import { limit } from '../redis/scripts.generated.js'
import { addressOf } from './client-ip.js'
import { type LimitRules, type Limits, limits } from './limit-rules.js'
import { LocalShare, refused, type Subjects } from './local-share.js'

export interface RateLimiterOptions {
  /** May be another Redis than the one with the stock. The host opens and closes it. */
  readonly redis: RedisLike
  /** Rules by name of resource: the submit of a sale has its own, apart from everyday orders. */
  readonly resources: Readonly<Record<string, LimitRules>>
  /** Deadline of one script, in ms; past it this process decides alone. @defaultValue 100 */
  readonly timeoutMs?: number
  /** How long it decides alone before it asks Redis again, in ms. @defaultValue 500 */
  readonly aloneMs?: number
  /**
   * Without Redis: this process' part of the total, more than 0, at most 1. Best 1 / number of processes.
   * @defaultValue 0.05, of twenty processes (the size of the source's cluster)
   */
  readonly localShare?: number
  /** Calls in one script. @defaultValue 128, half a millisecond of Lua (3.8 µs a call with IP and user) */
  readonly maxBatch?: number
  /** Calls of a resource that may wait for the batch before them; more are refused. @defaultValue 2,000 */
  readonly maxWaiting?: number
  /** How long they may wait, in ms. @defaultValue 200 */
  readonly maxWaitMs?: number
  /** Buckets of a resource kept apart within a window; newcomers beyond share 1,021 of a kind. @defaultValue 200,000 */
  readonly keyBudget?: number
  /** Told when Redis does not answer, once for each batch that went without. */
  readonly onError?: (error: unknown) => void
}

export interface LimitCheck {
  readonly resource: string
  readonly userId: string | bigint
  /** The client's address as the host's proxy settings give it; needed, and checked, where there is a rule for it. */
  readonly ip: string
  readonly skuId?: string
  /** Aborts the wait, never a check already sent. */
  readonly signal?: AbortSignal
}

type Answer = 'pass' | RateLimited

interface Call {
  readonly subjects: Subjects
  readonly key: string
}

interface Lane {
  limits: Limits
  local: LocalShare
  readonly coalescer: Coalescer<Call, Answer>
  /** By the monotonic clock: the total has no token before this instant, so calls need not ask. */
  shutUntil: number
}

/** Under overload Redis is asked this often at most whether the total has a token again, if its burst lasts that long. */
const SHUT_MS = 10
const BY = ['total', 'sku', 'ip', 'user'] as const

/**
 * Token buckets for a whole cluster: by user, by IP, for an SKU, in total, in sets by resource. Refuses when any of them
 * has no token; a refusal takes none of the others.
 *
 * Batches of checks are one script, by Redis' clock alone. When the total is used up, calls are refused from memory for
 * its next 10 ms (or half the time it takes to fill, if that is less, so that no token is lost). When Redis does not
 * answer in time, this process decides alone by its share of the total, for half a second at a time: then the cluster
 * admits its `localShare`s, and a user or IP its rate in each process it reaches; never everything, never nothing.
 *
 * A batch whose answer is lost may have been charged: it errs towards refusing.
 */
export class RateLimiter {
  private readonly lanes = new Map<string, Lane>()
  private readonly runner: ScriptRunner
  private readonly aloneMs: number
  private readonly localShare: number
  private readonly keyBudget: number
  private readonly onError: (error: unknown) => void
  private aloneUntil = Number.NEGATIVE_INFINITY
  private calls = 0

  constructor(o: RateLimiterOptions) {
    check.object(o, 'options')
    if (typeof o.redis?.evalsha !== 'function' || typeof o.redis.eval !== 'function')
      check.fail('BAD_OPTION', 'option redis', 'a client with evalsha and eval', o.redis)
    if (typeof o.resources !== 'object' || o.resources === null || Array.isArray(o.resources))
      check.fail('BAD_OPTION', 'option resources', 'an object', o.resources)
    this.onError = quiet('onError', o.onError)
    const { localShare = 0.05 } = o
    if (typeof localShare !== 'number' || !(localShare > 0 && localShare <= 1))
      check.fail('BAD_OPTION', 'option localShare', 'more than 0, at most 1', localShare)
    this.localShare = localShare
    this.runner = new ScriptRunner(o.redis, check.option(o.timeoutMs, 'timeoutMs', 100, 1, 60_000))
    this.aloneMs = check.option(o.aloneMs, 'aloneMs', 500, 1, 60_000)
    this.keyBudget = check.option(o.keyBudget, 'keyBudget', 200_000, 1_000, 10_000_000)
    const room = {
      maxBatch: check.option(o.maxBatch, 'maxBatch', 128, 1, 1_000),
      maxWaiting: check.option(o.maxWaiting, 'maxWaiting', 2_000, 1, 1_000_000),
      maxWaitMs: check.option(o.maxWaitMs, 'maxWaitMs', 200, 1, 60_000),
    }
    for (const [resource, rules] of Object.entries(o.resources))
      this.lanes.set(check.keyId(resource, 'resource'), this.lane(resource, rules, room))
  }

  /** Whether there are rules of this name. */
  has(resource: string): boolean {
    return this.lanes.has(resource)
  }

  /** New rules for a resource, from the next check on: the lever of a night. Spent tokens stay spent. */
  tune(resource: string, rules: LimitRules): void {
    const lane = this.laneOf(resource)
    lane.limits = limits(rules, resource)
    lane.local = new LocalShare(lane.limits, this.localShare)
    lane.shutUntil = Number.NEGATIVE_INFINITY
  }

  /** @throws FlashSaleError `BAD_INPUT`, also for a resource without rules; nothing was charged */
  async check(q: LimitCheck): Promise<Answer> {
    check.object(q, 'check')
    const lane = this.laneOf(q.resource)
    const subjects = subjectsOf(q, lane.limits)
    return this.fromMemory(lane, subjects) ?? lane.coalescer.submit(this.call(subjects), q.signal)
  }

  private laneOf(resource: string): Lane {
    const lane = this.lanes.get(resource)
    if (lane) return lane
    const names = [...this.lanes.keys()].join(', ')
    return check.fail('BAD_INPUT', 'resource', `one with rules (${names})`, resource)
  }

  private lane(
    resource: string,
    rules: LimitRules,
    room: { readonly maxBatch: number; readonly maxWaiting: number; readonly maxWaitMs: number },
  ): Lane {
    const found = limits(rules, `resources.${resource}`)
    const lane: Lane = {
      limits: found,
      local: new LocalShare(found, this.localShare),
      shutUntil: Number.NEGATIVE_INFINITY,
      coalescer: new Coalescer<Call, Answer>({
        ...room,
        keyOf: (call) => call.key,
        equal: () => false, // two calls of a user are two tokens
        maxBytes: Number.MAX_SAFE_INTEGER,
        bytesOf: () => 1, // a call has some 150 bytes at most: its number bounds the batch
        full: () => refused('total', 1e9),
        run: (calls) => this.run(lane, resource, calls),
      }),
    }
    return lane
  }

  private call(subjects: Subjects): Call {
    this.calls = (this.calls + 1) % Number.MAX_SAFE_INTEGER
    return { subjects, key: String(this.calls) }
  }

  /** The answer that needs no Redis, if there is one. */
  private fromMemory(lane: Lane, subjects: Subjects): Answer | null {
    const now = performance.now()
    if (now < lane.shutUntil) return refused('total', (lane.shutUntil - now) * 1e6)
    return now < this.aloneUntil ? lane.local.take(subjects) : null
  }

  private async run(
    lane: Lane,
    resource: string,
    calls: readonly Call[],
  ): Promise<readonly Answer[]> {
    const known = calls.map((call) => this.fromMemory(lane, call.subjects))
    const asked = calls.filter((_, i) => known[i] === null)
    if (asked.length === 0) return known as readonly Answer[]
    const answers = await this.ask(lane, resource, asked)
    let used = 0
    return known.map((answer) => answer ?? (answers[used++] as Answer))
  }

  private async ask(
    lane: Lane,
    resource: string,
    calls: readonly Call[],
  ): Promise<readonly Answer[]> {
    try {
      const { limits } = lane
      const wide = limits.sku !== null || limits.skus.size > 0
      const args = {
        windowNs: limits.window,
        budget: this.keyBudget,
        totalStep: limits.total.step,
        totalRoom: limits.total.room,
        ipStep: limits.ip?.step ?? 0,
        ipRoom: limits.ip?.room ?? 0,
        userStep: limits.user?.step ?? 0,
        userRoom: limits.user?.room ?? 0,
        width: wide ? 5 : 2,
        count: calls.length,
      }
      const more = { args: calls.flatMap(wide ? argsWithSku : argsOf) }
      const reply = await this.runner.run(limit, limitKeys(resource), args, more)
      return this.answers(lane, String(reply[1]), String(reply[2]), calls.length)
    } catch (error) {
      this.aloneUntil = performance.now() + this.aloneMs
      this.onError(error)
      return calls.map((call) => lane.local.take(call.subjects))
    }
  }

  private answers(lane: Lane, codes: string, waits: string, count: number): readonly Answer[] {
    const by = codes.split(' ')
    const ms = waits.split(' ')
    if (by.length !== count)
      throw new FlashSaleError('CORRUPT', `limit answered ${by.length} of ${count} calls`)
    let used = 0
    return by.map((code) => {
      if (code === '0') return 'pass'
      const answer = refused(BY[Number(code) - 1] ?? 'total', Number(ms[used++]) * 1e6)
      if (answer.by === 'total') {
        const pause = Math.min(SHUT_MS, lane.limits.total.room / 2e6)
        lane.shutUntil = performance.now() + Math.max(pause, answer.retryAfterMs)
      }
      return answer
    })
  }
}

/** Checks what the rules need, and spells the fields of the buckets: a kind and a name. */
function subjectsOf(q: LimitCheck, { ip, user, sku, skus }: Limits): Subjects {
  const userId = check.userIdOf(q.userId)
  const skuId = q.skuId === undefined ? '' : check.keyId(q.skuId, 'skuId')
  const skuRule = skuId === '' ? null : (skus.get(skuId) ?? sku)
  return {
    sku: skuRule ? `s${skuId}` : '',
    ip: ip ? `i${addressOf(q.ip)}` : '',
    user: user ? `u${userId}` : '',
    skuRule,
  }
}

function argsOf({ subjects: { ip, user } }: Call): string[] {
  return [ip, user]
}

function argsWithSku(call: Call): string[] {
  const { sku, skuRule } = call.subjects
  return [...argsOf(call), sku, String(skuRule?.step ?? 0), String(skuRule?.room ?? 0)]
}
