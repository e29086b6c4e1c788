import * as check from '../core/check.js'

/** A token bucket: `burst` calls at once, then `perSecond`. In any time t at most `burst + perSecond × t` pass. */
export interface Rate {
  /** Whole number, 1 to 1,000,000. */
  readonly burst: number
  /** More than 0, at most 1,000,000; 0.1 is one call in ten seconds. */
  readonly perSecond: number
}

/** The limits of one resource; whichever has no token refuses. */
export interface LimitRules {
  /** Of all callers together. Set it below the measured capacity of what lies behind (the source: 2,500 of 3,000). */
  readonly total: Rate
  /** Of one IPv4 address or IPv6 /64; companies and mobile carriers have thousands of people behind one. */
  readonly ip?: Rate
  /** Of one user. */
  readonly user?: Rate
  /** Of one SKU: a hot one must not use up the total for the others. */
  readonly sku?: Rate
  /** Of single SKUs, by id, instead of `sku`. */
  readonly skus?: Readonly<Record<string, Rate>>
}

/** A rate in whole ns, rounded up: never faster than what was asked for, slower by at most 0.1 %. */
export interface Bucket {
  /** Time to refill one token. */
  readonly step: number
  /** Time to refill them all. */
  readonly room: number
}

export interface Limits {
  readonly total: Bucket
  readonly ip: Bucket | null
  readonly user: Bucket | null
  readonly sku: Bucket | null
  readonly skus: ReadonlyMap<string, Bucket>
  /** After this time without a call every bucket is full. */
  readonly window: number
}

/** A longer memory would be a quota, kept in a database; and instants must stay exact in Lua's doubles. */
const MAX_ROOM = 86_400e9
/** Buckets are dropped by the window: not so often that dropping them is work. */
const MIN_WINDOW = 1e9
const KINDS: readonly string[] = ['total', 'ip', 'user', 'sku', 'skus']

export function limits(rules: LimitRules, name: string): Limits {
  options(rules, name)
  for (const kind of Object.keys(rules))
    if (!KINDS.includes(kind))
      check.fail('BAD_OPTION', `option ${name}`, `of ${KINDS.join(', ')}`, kind)
  if (rules.skus !== undefined) options(rules.skus, `${name}.skus`)
  const optional = (rate: Rate | undefined, of: string) =>
    rate === undefined ? null : bucket(rate, `${name}.${of}`)
  const skus = Object.entries(rules.skus ?? {}).map(([skuId, rate]) => {
    return [check.keyId(skuId, 'skuId'), bucket(rate, `${name}.skus.${skuId}`)] as const
  })
  const found = {
    total: bucket(rules.total, `${name}.total`),
    ip: optional(rules.ip, 'ip'),
    user: optional(rules.user, 'user'),
    sku: optional(rules.sku, 'sku'),
    skus: new Map(skus),
  }
  const all = [found.total, found.ip, found.user, found.sku, ...found.skus.values()]
  return { ...found, window: Math.max(MIN_WINDOW, ...all.map((b) => b?.room ?? 0)) }
}

export function bucket(rate: Rate, name: string): Bucket {
  options(rate, name)
  const { perSecond } = rate
  const burst = check.int(rate.burst, `option ${name}.burst`, 1, 1_000_000, 'BAD_OPTION')
  if (typeof perSecond !== 'number' || !(perSecond > 0 && perSecond <= 1_000_000))
    check.fail('BAD_OPTION', `option ${name}.perSecond`, 'more than 0, at most 1000000', perSecond)
  const step = Math.ceil(1e9 / perSecond)
  if (burst * step > MAX_ROOM)
    check.fail(
      'BAD_OPTION',
      `option ${name}`,
      'full again within a day',
      `${burst} × 1/${perSecond} s`,
    )
  return { step, room: burst * step }
}

function options(value: unknown, name: string): asserts value is object {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    check.fail('BAD_OPTION', `option ${name}`, 'an object', value)
}
