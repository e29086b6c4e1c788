import * as check from '../core/check.js'
import type { FlashSaleEvents } from '../core/ports.js'
import { quiet } from '../core/quiet.js'
import type { Refusal, SkuRef, TokenProof } from '../core/types.js'
import type { ActivityGate, KnownActivity } from '../gate/activity-gate.js'
import type { BackpressureGate } from '../gate/backpressure-gate.js'
import type { RateLimiter } from '../gate/rate-limiter.js'
import type { RefusalCounters } from '../gate/refusal-counters.js'
import type { SoldOutMark } from '../gate/sold-out-mark.js'
import type { Winners } from '../gate/winners.js'
import type { TokenIssuer } from '../token/token-issuer.js'
import type { Buyer, FlashSaleOptions, RiskQuestion, SubmitRequest } from './options.js'

/** Names of the layers, in the order in which a click meets them: first what costs nothing, the stock last. */
export type Layer = 'gate' | 'mark' | 'backpressure' | 'limit' | 'risk' | 'token' | 'stock'

export interface AdmissionOptions {
  readonly gate: ActivityGate
  readonly mark: SoldOutMark
  readonly winners: Winners
  readonly counters: RefusalCounters
  readonly backpressure: BackpressureGate | undefined
  readonly limiter: RateLimiter | undefined
  readonly risk: FlashSaleOptions['risk']
  readonly tokens: TokenIssuer | undefined
  readonly events: FlashSaleEvents | undefined
}

type Who = SkuRef & { readonly userId: string }

export interface Admitted {
  readonly known: KnownActivity
  /** All is sold, and he may have bought: his click goes to Redis, past the sold-out mark. */
  readonly mayHaveWon: boolean
  readonly token: TokenProof | undefined
}

/** Everything that may refuse a click before it reaches the stock. */
export class Admission {
  private readonly onRefused: NonNullable<FlashSaleEvents['onRefused']>

  constructor(private readonly o: AdmissionOptions) {
    this.onRefused = quiet('events.onRefused', o.events?.onRefused, o.events)
  }

  async submit(request: SubmitRequest, who: Who, quantity: number): Promise<Admitted | Refusal> {
    const { gate, mark, backpressure } = this.o
    const look = gate.look(who.activityId)
    const known = look instanceof Promise ? await look : look
    const shut =
      'status' in known
        ? known
        : (gate.refusal(known, Date.now()) ?? unsuitable(known, who.skuId, quantity))
    if (shut || 'status' in known) return this.refused('gate', shut as Refusal, who)
    this.passed('gate')
    const marked = mark.refusal(who, known.activity.version)
    const mayHaveWon =
      marked !== null && known.activity.mode === 'queued' && this.o.winners.mayBe(who, who.userId)
    if (marked && !mayHaveWon) return this.refused('mark', marked, who)
    this.passed('mark')
    if (backpressure) {
      const pressed = backpressure.check()
      if (pressed.status !== 'open') return this.refused('backpressure', pressed, who)
      this.passed('backpressure')
    }
    const late =
      (await this.limited('submit', request.buyer, who, request.signal)) ??
      (await this.denied('submit', request.buyer, who))
    if (late) return late
    const token = await this.proof(known, who.userId, request)
    if (token && 'status' in token) return this.refused('token', token, who)
    if (token) this.passed('token')
    return { known, mayHaveWon, token }
  }

  /** Before a token is issued; null when it may be. */
  async token(buyer: Buyer, who: Who): Promise<Refusal | null> {
    return (await this.limited('token', buyer, who)) ?? (await this.denied('token', buyer, who))
  }

  passed(layer: Layer): void {
    this.o.counters.passed(layer)
  }

  refused(layer: Layer, refusal: Refusal, who: Who): Refusal {
    this.o.counters.refused(layer, refusal.status)
    this.onRefused(layer, refusal, who)
    return refusal
  }

  /** Rules under the name `submit` or `token`; a step without rules has no limit. */
  private async limited(
    resource: RiskQuestion['step'],
    buyer: Buyer,
    who: Who,
    signal?: AbortSignal,
  ): Promise<Refusal | null> {
    const { limiter } = this.o
    if (!limiter?.has(resource)) return null
    const { userId, skuId } = who
    const verdict = await limiter.check({
      resource,
      userId,
      ip: buyer.ip,
      ...(skuId === '' ? {} : { skuId }),
      ...(signal ? { signal } : {}),
    })
    if (verdict !== 'pass') return this.refused('limit', verdict, who)
    this.passed('limit')
    return null
  }

  private async denied(
    step: RiskQuestion['step'],
    buyer: Buyer,
    who: Who,
  ): Promise<Refusal | null> {
    if (!this.o.risk) return null
    const verdict = await this.o.risk({ step, activityId: who.activityId, buyer })
    if (verdict !== 'pass')
      return this.refused('risk', { status: 'denied', reason: verdict.deny }, who)
    this.passed('risk')
    return null
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
}

export function claims(activityId: string, userId: string, buyer: Buyer) {
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
