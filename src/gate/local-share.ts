import type { RateLimited } from '../core/types.js'
import type { Bucket, Limits } from './limit-rules.js'

/** What a call is counted under: the fields of its buckets, '' where no rule applies. */
export interface Subjects {
  readonly sku: string
  readonly ip: string
  readonly user: string
  readonly skuRule: Bucket | null
}

/** Buckets of one resource in this process; beyond them newcomers are refused, for the time that the oldest need. */
const MAX_BUCKETS = 20_000

/**
 * The limits of one resource by this process alone, for the time without Redis: a share of the total, and the rules of
 * IP, user and SKU as they are. Bounded like the rules it stands in for, and never closed: the smallest share is one
 * call at a time.
 */
export class LocalShare {
  private readonly total: Bucket
  private totalFullAt = 0
  private sweptAt = Number.NEGATIVE_INFINITY
  private readonly fullAt = new Map<string, number>()

  constructor(
    private readonly limits: Limits,
    share: number,
  ) {
    const { step, room } = limits.total
    const ownStep = Math.ceil(step / share)
    this.total = { step: ownStep, room: ownStep * Math.max(1, Math.floor((room / step) * share)) }
  }

  take(subjects: Subjects): 'pass' | RateLimited {
    const now = performance.now() * 1e6
    const { sku, ip, user, skuRule } = subjects
    const late = this.waitFor(this.totalFullAt, this.total, now)
    if (late > 0) return refused('total', late)
    const met: [string, Bucket][] = []
    for (const [by, name, rule] of [
      ['sku', sku, skuRule],
      ['ip', ip, this.limits.ip],
      ['user', user, this.limits.user],
    ] as const) {
      if (name === '' || !rule) continue
      const wait = this.waitFor(this.fullAt.get(name) ?? 0, rule, now)
      if (wait > 0) return refused(by, wait)
      met.push([name, rule])
    }
    if (this.fullAt.size + met.length > MAX_BUCKETS && !this.dropFull(now))
      return refused('total', this.limits.window)
    this.totalFullAt = Math.max(now, this.totalFullAt) + this.total.step
    for (const [name, rule] of met)
      this.fullAt.set(name, Math.max(now, this.fullAt.get(name) ?? 0) + rule.step)
    return 'pass'
  }

  private waitFor(fullAt: number, { step, room }: Bucket, now: number): number {
    return Math.max(now, fullAt) + step - room - now
  }

  /** At most ten times a second: under a flood it must not become the work. */
  private dropFull(now: number): boolean {
    if (now - this.sweptAt < 100e6) return false
    this.sweptAt = now
    for (const [name, fullAt] of this.fullAt) if (fullAt <= now) this.fullAt.delete(name)
    return this.fullAt.size + 3 <= MAX_BUCKETS
  }
}

export function refused(by: RateLimited['by'], waitNs: number): RateLimited {
  return { status: 'rate-limited', by, retryAfterMs: Math.max(1, Math.ceil(waitNs / 1e6)) }
}
