import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { LimitRules } from '../../src/gate/limit-rules.js'
import {
  type LimitCheck,
  RateLimiter,
  type RateLimiterOptions,
} from '../../src/gate/rate-limiter.js'
import * as generated from '../../src/redis/scripts.generated.js'

const WIDE = { burst: 1_000_000, perSecond: 1_000_000 }
/** A tenth of it is ten calls, and another in ten seconds. */
const SLOW = { total: { burst: 100, perSecond: 1 } }

/** A Redis that answers as told and counts what it was asked. */
class Redis {
  scripts = 0
  calls = 0
  answer: (calls: number) => Promise<unknown> = async (n) => [1, Array(n).fill(0).join(' '), '']

  evalsha(_sha: string, _keys: number, ...args: string[]): Promise<unknown> {
    this.scripts++
    const calls = Number(args[12])
    this.calls += calls
    return this.answer(calls)
  }

  eval(): Promise<unknown> {
    throw new Error('EVALSHA was understood')
  }
}

function limiter(redis: Redis, submit: LimitRules, o: Partial<RateLimiterOptions> = {}) {
  return new RateLimiter({ redis, resources: { submit }, ...o })
}

const call = (o: Partial<LimitCheck> = {}): LimitCheck => ({
  resource: 'submit',
  userId: 'u1',
  ip: '203.0.113.9',
  ...o,
})

const crowd = (limit: RateLimiter, size: number, of: (i: number) => Partial<LimitCheck>) =>
  Promise.all(Array.from({ length: size }, (_, i) => limit.check(call(of(i)))))

const passed = (answers: readonly unknown[]) => answers.filter((a) => a === 'pass').length

describe('RateLimiter without Redis', () => {
  const away = () => {
    const redis = new Redis()
    redis.answer = async () => {
      throw new Error('Connection is closed.')
    }
    return redis
  }

  it('F3 admits its share of the total, never all and never none', async () => {
    const limit = limiter(away(), SLOW, { localShare: 0.1 })
    expect(passed(await crowd(limit, 500, () => ({})))).toBe(10)
  })

  it('F3 the smallest share is one call at a time', async () => {
    const limit = limiter(away(), { total: { burst: 5, perSecond: 100 } }, { localShare: 0.1 })
    expect(passed(await crowd(limit, 50, () => ({})))).toBe(1)
    await pause(120) // 100 a second by a tenth: one in 100 ms
    expect(passed(await crowd(limit, 50, () => ({})))).toBe(1)
  })

  it('F3 keeps the rules of user, IP and SKU, and a refusal charges nothing', async () => {
    const one = { burst: 1, perSecond: 0.01 }
    const two = { burst: 2, perSecond: 0.01 }
    const three = { burst: 3, perSecond: 0.01 }
    const four = { burst: 4, perSecond: 0.01 }
    const rules = { total: four, user: one, ip: two, sku: three }
    const limit = limiter(away(), rules, { localShare: 1 })
    const at = (userId: string, ip: string) => limit.check(call({ userId, ip, skuId: 's1' }))
    expect(await at('u1', '192.0.2.1')).toBe('pass')
    for (let i = 0; i < 9; i++) expect(await at('u1', '192.0.2.1')).toMatchObject({ by: 'user' })
    expect(await at('u2', '192.0.2.1')).toBe('pass')
    expect(await at('u3', '192.0.2.1')).toMatchObject({ by: 'ip' })
    expect(await at('u3', '192.0.2.3')).toBe('pass')
    expect(await at('u4', '192.0.2.4')).toMatchObject({ by: 'sku' })
    expect(await limit.check(call({ userId: 'u4', ip: '192.0.2.4' }))).toBe('pass')
    expect(await at('u5', '192.0.2.5')).toMatchObject({ by: 'total' })
  })

  it('F3 asks again half a second later, not at every call', async () => {
    const redis = away()
    const errors: unknown[] = []
    const limit = limiter(redis, { total: WIDE }, { aloneMs: 300, onError: (e) => errors.push(e) })
    await crowd(limit, 300, () => ({}))
    await crowd(limit, 300, () => ({}))
    // The first batch, and none of those that waited behind it.
    expect(redis.scripts).toBe(1)
    expect(errors).toMatchObject([{ code: 'OUTCOME_UNKNOWN' }])
    await pause(320)
    redis.answer = async (n) => [1, Array(n).fill(3).join(' '), Array(n).fill(7).join(' ')]
    expect(await limit.check(call())).toEqual({
      status: 'rate-limited',
      by: 'ip',
      retryAfterMs: 7,
    })
    expect(redis.scripts).toBe(2)
  })

  it('F3 a Redis that hangs holds a call up for its deadline and no longer', async () => {
    const redis = new Redis()
    redis.answer = () => new Promise(() => {})
    const limit = limiter(redis, SLOW, { timeoutMs: 50, localShare: 0.1 })
    const began = performance.now()
    expect(passed(await crowd(limit, 400, () => ({})))).toBe(10)
    expect(performance.now() - began).toBeLessThan(1_000)
    await crowd(limit, 400, () => ({}))
    expect(redis.scripts).toBe(1)
  })

  it.each([
    ['nothing', null],
    ['too few codes', [1, '0', '']],
    ['no numbers', [1, 'x y z', '']],
    ['an error code', [-1]],
  ])('F3 a reply of %s admits no more than the share', async (_, reply) => {
    const redis = new Redis()
    redis.answer = async () => reply
    const limit = limiter(redis, SLOW, { localShare: 0.1 })
    expect(passed(await crowd(limit, 300, () => ({})))).toBeLessThanOrEqual(10)
  })

  it('F3 a flood of made-up users takes bounded memory, and is refused beyond it', async () => {
    const rules = { total: WIDE, user: { burst: 1, perSecond: 0.001 } }
    const limit = limiter(away(), rules, { localShare: 1, aloneMs: 60_000 })
    await limit.check(call())
    const began = performance.now()
    const answers = await crowd(limit, 60_000, (i) => ({ userId: `u-${i}` }))
    expect(passed(answers)).toBeGreaterThan(19_900)
    expect(passed(answers)).toBeLessThanOrEqual(20_000)
    expect(performance.now() - began).toBeLessThan(5_000)
  })

  it('F3 a throwing onError does not fail a check', async () => {
    const onError = () => {
      throw new Error('the pager is down')
    }
    expect(await limiter(away(), { total: WIDE }, { onError }).check(call())).toBe('pass')
  })
})

describe('RateLimiter in memory', () => {
  it('F3 once the total is used up, refuses without Redis until it has a token again', async () => {
    const redis = new Redis()
    const limit = limiter(redis, { total: { burst: 100, perSecond: 10 } })
    redis.answer = async (n) => [1, Array(n).fill(1).join(' '), Array(n).fill(300).join(' ')]
    expect(await limit.check(call())).toMatchObject({ by: 'total', retryAfterMs: 300 })
    const answers = await crowd(limit, 1_000, () => ({}))
    expect(redis.calls).toBe(1)
    for (const answer of answers as { by: string; retryAfterMs: number }[]) {
      expect(answer.by).toBe('total')
      expect(answer.retryAfterMs).toBeGreaterThanOrEqual(1)
      expect(answer.retryAfterMs).toBeLessThanOrEqual(300)
    }
    await pause(310)
    await limit.check(call())
    expect(redis.calls).toBe(2)
  })

  it('F3 does not wait longer than half the time in which the total fills', async () => {
    const redis = new Redis()
    const limit = limiter(redis, { total: { burst: 4, perSecond: 1_000 } })
    redis.answer = async (n) => [1, Array(n).fill(1).join(' '), Array(n).fill(1).join(' ')]
    await limit.check(call())
    await pause(4)
    await limit.check(call())
    expect(redis.calls).toBe(2)
  })

  it('F3 calls that wait while the total runs out are refused without Redis too', async () => {
    const redis = new Redis()
    redis.answer = async (n) => {
      await pause(10)
      return [1, Array(n).fill(1).join(' '), Array(n).fill(500).join(' ')]
    }
    const limit = limiter(redis, { total: { burst: 100, perSecond: 2 } })
    expect(passed(await crowd(limit, 1_500, () => ({})))).toBe(0)
    expect(redis.scripts).toBe(1)
  })

  it('F3 a waiting room that is full refuses', async () => {
    const redis = new Redis()
    redis.answer = async (n) => {
      await pause(10)
      return [1, Array(n).fill(0).join(' '), '']
    }
    const limit = limiter(redis, { total: WIDE }, { maxWaiting: 20, maxBatch: 10 })
    const answers = await crowd(limit, 50, () => ({}))
    expect(passed(answers)).toBe(20)
    expect(answers.at(-1)).toEqual({ status: 'rate-limited', by: 'total', retryAfterMs: 1_000 })
  })

  it('F3 an aborted call leaves before it is sent, and is not charged', async () => {
    const redis = new Redis()
    const limit = limiter(redis, { total: WIDE })
    const abort = new AbortController()
    const left = limit.check(call({ signal: abort.signal }))
    const stays = limit.check(call())
    abort.abort(new Error('gone'))
    await expect(left).rejects.toThrow('gone')
    expect(await stays).toBe('pass')
    expect(redis.calls).toBe(1)
  })
})

describe('RateLimiter refuses', () => {
  const rate = { burst: 1, perSecond: 1 }
  it.each([
    [undefined, 'option resources.submit must be an object, got undefined'],
    [[], 'option resources.submit must be an object, got an array'],
    [{}, 'option resources.submit.total must be an object, got undefined'],
    [{ total: 5 }, 'option resources.submit.total must be an object, got 5'],
    [{ total: { burst: 0, perSecond: 1 } }, 'resources.submit.total.burst must be a whole number'],
    [{ total: { burst: 1.5, perSecond: 1 } }, 'resources.submit.total.burst'],
    [{ total: { burst: '5', perSecond: 1 } }, 'resources.submit.total.burst'],
    [{ total: { burst: 1_000_001, perSecond: 1e6 } }, 'resources.submit.total.burst'],
    [{ total: { burst: 1, perSecond: 0 } }, 'resources.submit.total.perSecond must be more than 0'],
    [{ total: { burst: 1, perSecond: -1 } }, 'resources.submit.total.perSecond'],
    [{ total: { burst: 1, perSecond: Number.NaN } }, 'resources.submit.total.perSecond'],
    [{ total: { burst: 1, perSecond: 1_000_001 } }, 'resources.submit.total.perSecond'],
    [{ total: { burst: 1, perSecond: '1' } }, 'resources.submit.total.perSecond'],
    [{ total: { burst: 1_000, perSecond: 0.01 } }, 'resources.submit.total must be full again'],
    [{ total: rate, user: null }, 'resources.submit.user must be an object, got null'],
    [{ total: rate, ip: { burst: 1 } }, 'resources.submit.ip.perSecond'],
    [{ total: rate, device: rate }, 'must be of total, ip, user, sku, skus, got "device"'],
    [{ total: rate, skus: { 'a:b': rate } }, 'skuId must be a string'],
    [{ total: rate, skus: { a: {} } }, 'resources.submit.skus.a.burst'],
    [{ total: rate, skus: [] }, 'resources.submit.skus must be an object, got an array'],
  ] as const)('F3 the rules %j', (rules, message) => {
    const make = () => limiter(new Redis(), rules as never)
    expect(make).toThrowError(expect.objectContaining({ name: 'FlashSaleError' }))
    expect(make).toThrowError(message)
  })

  it.each([
    [{ redis: {} }, 'option redis must be a client with evalsha and eval'],
    [{ resources: null }, 'option resources must be an object'],
    [{ resources: { 'a{b}': { total: rate } } }, 'resource must be a string'],
    [{ localShare: 0 }, 'option localShare must be more than 0, at most 1, got 0'],
    [{ localShare: 1.1 }, 'option localShare'],
    [{ localShare: Number.NaN }, 'option localShare'],
    [{ timeoutMs: 0 }, 'option timeoutMs must be a whole number from 1 to 60000, got 0'],
    [{ aloneMs: -1 }, 'option aloneMs'],
    [{ maxBatch: 1_001 }, 'option maxBatch'],
    [{ maxWaiting: 0 }, 'option maxWaiting'],
    [{ maxWaitMs: 1.5 }, 'option maxWaitMs'],
    [{ keyBudget: 999 }, 'option keyBudget'],
    [{ onError: 'log' }, 'option onError must be a function'],
  ] as const)('F3 the options %j', (o, message) => {
    expect(() => limiter(new Redis(), { total: rate }, o as never)).toThrowError(message)
  })

  it.each([
    [{ resource: 'checkout' }, 'resource must be one with rules (submit), got "checkout"'],
    [{ resource: 'constructor' }, 'resource must be one with rules'],
    [{ userId: '' }, 'userId'],
    [{ userId: 42 }, 'userId'],
    [{ userId: 'a|b' }, 'userId'],
    [{ skuId: 'a:b' }, 'skuId'],
    [{ ip: 'unknown' }, 'ip must be an IPv4 or IPv6 address'],
    [{ ip: undefined }, 'ip must be an IPv4 or IPv6 address'],
  ] as const)('F3 the check %j with BAD_INPUT, without asking Redis', async (o, message) => {
    const redis = new Redis()
    const limit = limiter(redis, { total: rate, ip: rate })
    const checked = limit.check({ ...call(), ...o } as never)
    await expect(checked).rejects.toMatchObject({ code: 'BAD_INPUT' })
    await expect(checked).rejects.toThrow(message)
    expect(redis.scripts).toBe(0)
  })

  it('F3 an address is looked at only where there is a rule for it; SKU names like constructor are names', async () => {
    const limit = limiter(new Redis(), { total: rate, skus: { hot: rate } })
    expect(await limit.check(call({ ip: 'unix:', skuId: 'constructor' }))).toBe('pass')
    expect(await limit.check(call({ userId: 18_493_029n }))).toBe('pass')
  })
})

it('S9 the limiter may change while a sale runs: its script is not in the set that a sale is pinned to', () => {
  const { SCRIPT_SET, ...scripts } = generated
  const file = (name: string) =>
    `${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}.lua`
  const header = (name: string) =>
    readFileSync(new URL(`../../lua/${file(name)}`, import.meta.url), 'utf8')
  const pinned = Object.values(scripts)
    .filter(({ name }) => !header(name).includes('-- @unpinned'))
    .sort((a, b) => (file(a.name) < file(b.name) ? -1 : 1))
  const sha = createHash('sha1').update(pinned.map((s) => `${s.name} ${s.sha}\n`).join(''))
  expect(pinned.map((s) => s.name)).toContain('deduct')
  expect(pinned.map((s) => s.name)).not.toContain('limit')
  expect(sha.digest('hex')).toBe(SCRIPT_SET)
})
