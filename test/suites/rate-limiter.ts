import { setTimeout as pause } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { LimitRules } from '../../src/gate/limit-rules.js'
import {
  type LimitCheck,
  RateLimiter,
  type RateLimiterOptions,
} from '../../src/gate/rate-limiter.js'

const KEYS = ['seckill:limit:{submit}', 'seckill:limit:{submit}:1', 'seckill:limit:{submit}:2']
const HOUR = 3_600_000
/** Refills nothing that a test of some seconds would notice. */
const slow = (burst: number) => ({ burst, perSecond: 0.01 })
const WIDE = { burst: 1_000_000, perSecond: 1_000_000 }

/** The promises of RateLimiter, for any Redis; `open` gives an empty one. */
export function rateLimiter(engine: 'mock' | 'real', open: () => Promise<Redis>): void {
  describe(`RateLimiter on ${engine} Redis`, () => {
    let redis: Redis
    beforeEach(async () => {
      redis = await open()
    })

    const limiter = (submit: LimitRules, o: Partial<RateLimiterOptions> = {}) =>
      new RateLimiter({ redis, resources: { submit }, timeoutMs: 5_000, ...o })

    const call = (o: Partial<LimitCheck> = {}): LimitCheck => ({
      resource: 'submit',
      userId: 'u1',
      ip: '203.0.113.9',
      ...o,
    })

    const crowd = (limit: RateLimiter, size: number, of: (i: number) => Partial<LimitCheck>) =>
      Promise.all(Array.from({ length: size }, (_, i) => limit.check(call(of(i)))))

    const passed = (answers: readonly unknown[]) => answers.filter((a) => a === 'pass').length

    /** As if Redis' clock had been set by so much: what is stored then lies that much further off. */
    const stepClock = async (ms: number) => {
      for (const field of ['origin', 'at']) {
        const value = Number(await redis.hget(KEYS[0] as string, field))
        await redis.hset(KEYS[0] as string, field, (value - ms * 1_000).toFixed(0))
      }
    }

    const contents = async () =>
      Promise.all(KEYS.map(async (key) => [key, await redis.hgetall(key)]))

    it.each([
      ['user', { total: WIDE, user: slow(3) }, (i: number) => ({ ip: `203.0.113.${i}` })],
      ['ip', { total: WIDE, ip: slow(3) }, (i: number) => ({ userId: `u${i}` })],
      ['sku', { total: WIDE, sku: slow(3) }, (i: number) => ({ userId: `u${i}`, skuId: 's1' })],
      ['sku', { total: WIDE, skus: { hot: slow(3) } }, () => ({ skuId: 'hot' })],
      ['total', { total: slow(3) }, (i: number) => ({ userId: `u${i}` })],
    ] as const)('F3 lets the burst pass, then refuses by %s', async (by, rules, of) => {
      const answers = await crowd(limiter(rules), 8, of)
      expect(answers.slice(0, 3)).toEqual(['pass', 'pass', 'pass'])
      for (const answer of answers.slice(3)) {
        expect(answer).toMatchObject({ status: 'rate-limited', by })
        const { retryAfterMs } = answer as { retryAfterMs: number }
        expect(Number.isInteger(retryAfterMs)).toBe(true)
        expect(retryAfterMs).toBeGreaterThan(90_000)
        expect(retryAfterMs).toBeLessThanOrEqual(100_000)
      }
    })

    it('F3 any of the rules refuses, the total first, then SKU, IP, user', async () => {
      const one = slow(1)
      const limit = limiter({ total: slow(5), ip: slow(3), user: one, sku: slow(4) })
      const at = (userId: string, ip: string, skuId = 's1') =>
        limit.check(call({ userId, ip, skuId }))
      expect(await at('u1', '192.0.2.1')).toBe('pass')
      expect(await at('u1', '192.0.2.1')).toMatchObject({ by: 'user' })
      expect(await at('u2', '192.0.2.1')).toBe('pass')
      expect(await at('u3', '192.0.2.1')).toBe('pass')
      expect(await at('u1', '192.0.2.1')).toMatchObject({ by: 'ip' })
      expect(await at('u4', '192.0.2.2')).toBe('pass')
      expect(await at('u1', '192.0.2.1')).toMatchObject({ by: 'sku' })
      expect(await at('u5', '192.0.2.3', 's2')).toBe('pass')
      expect(await at('u1', '192.0.2.1')).toMatchObject({ by: 'total' })
    })

    it('F3 a refusal charges nothing: what the user is refused, IP and total keep', async () => {
      const limit = limiter({ total: slow(4), ip: slow(4), user: slow(1), sku: slow(4) })
      await limit.check(call({ skuId: 's1' }))
      const before = await contents()
      const refusals = await crowd(limit, 20, () => ({ skuId: 's1' }))
      expect(passed(refusals)).toBe(0)
      expect(await contents()).toEqual(before)
      // Three are left of each of the others, and all three can be had.
      expect(passed(await crowd(limit, 9, (i) => ({ userId: `v${i}`, skuId: 's1' })))).toBe(3)
    })

    it('F3 keeps resources, users, addresses and SKUs apart', async () => {
      const rules = { total: WIDE, user: slow(1), ip: slow(100), sku: slow(2) }
      const limit = new RateLimiter({ redis, resources: { submit: rules, token: rules } })
      expect(await limit.check(call())).toBe('pass')
      expect(await limit.check(call({ resource: 'token' }))).toBe('pass')
      expect(await limit.check(call({ userId: 'u2' }))).toBe('pass')
      expect(passed(await crowd(limit, 3, (i) => ({ userId: `a${i}`, skuId: 's1' })))).toBe(2)
      expect(passed(await crowd(limit, 3, (i) => ({ userId: `b${i}`, skuId: 's2' })))).toBe(2)
    })

    it('F3 a user, an address and an SKU of one name are three buckets', async () => {
      const limit = limiter({ total: WIDE, user: slow(2), sku: slow(3) })
      const answers = await crowd(limit, 4, (i) => ({ userId: i < 2 ? 'x' : `y${i}`, skuId: 'x' }))
      expect(answers.slice(0, 3)).toEqual(['pass', 'pass', 'pass'])
      expect(answers[3]).toMatchObject({ by: 'sku' })
    })

    it('F3 the addresses of an IPv6 /64 are one caller, and so is an IPv4 address however written', async () => {
      const limit = limiter({ total: WIDE, ip: slow(2) })
      const of = (ips: readonly string[]) => crowd(limit, ips.length, (i) => ({ ip: ips[i] ?? '' }))
      expect(passed(await of(['2001:db8::1', '2001:db8:0:0:ffff::', '2001:DB8::9%eth0']))).toBe(2)
      expect(await limit.check(call({ ip: '2001:db8:0:1::1' }))).toBe('pass')
      expect(passed(await of(['198.51.100.7', '::ffff:198.51.100.7', '::FFFF:c633:6407']))).toBe(2)
    })

    it('F3 processes share the tokens', async () => {
      const pods = [limiter({ total: slow(10) }), limiter({ total: slow(10) })]
      const answers = await Promise.all(pods.map((pod) => crowd(pod, 30, () => ({}))))
      expect(passed(answers.flat())).toBe(10)
    })

    it('F3 new rules hold from the next check on, and spent tokens stay spent', async () => {
      const limit = limiter({ total: slow(10), user: slow(10) })
      expect(passed(await crowd(limit, 4, () => ({})))).toBe(4)
      limit.tune('submit', { total: slow(10), user: slow(2) })
      expect(await limit.check(call())).toMatchObject({ by: 'user' })
      expect(passed(await crowd(limit, 9, (i) => ({ userId: `v${i}` })))).toBe(6)
      limit.tune('submit', { total: WIDE, user: slow(2) })
      await crowd(limit, 1, () => ({})) // under the new rule the total is empty, not deep in debt
      await pause(30)
      expect(await limit.check(call({ userId: 'w' }))).toBe('pass')
    })

    it('C13 twenty calls of one millisecond all count', async () => {
      const five = { burst: 5, perSecond: 0.01 }
      const limit = limiter({ total: WIDE, user: five })
      expect(passed(await crowd(limit, 20, () => ({})))).toBe(5)
    })

    it('C13 the clocks of two pods do not matter', async () => {
      const rules = { total: WIDE, user: slow(5) }
      const pods = [limiter(rules), limiter(rules)]
      let count = 0
      for (const [pod, offMs] of [
        [0, 0],
        [1, -10_000],
        [0, 0],
        [1, HOUR],
      ] as const) {
        const now = Date.now()
        const clock = engine === 'real' ? vi.spyOn(Date, 'now').mockReturnValue(now + offMs) : null
        count += passed(await crowd(pods[pod] as RateLimiter, 3, () => ({})))
        clock?.mockRestore()
      }
      expect(count).toBe(5)
    })

    it.each([
      ['of a user', { total: WIDE, user: { burst: 5, perSecond: 5 } }],
      ['of all', { total: { burst: 5, perSecond: 5 } }],
    ])('C13 after an idle hour a bucket %s is full, not overfull', async (_, rules) => {
      const limit = limiter(rules)
      expect(passed(await crowd(limit, 10, () => ({})))).toBe(5)
      await stepClock(HOUR)
      await pause(250) // while the total is used up, Redis is not asked
      expect(passed(await crowd(limit, 10, () => ({})))).toBe(5)
    })

    it('C13 a clock set back refills nothing, and blocks nobody for longer than before', async () => {
      const limit = limiter({ total: WIDE, user: { burst: 5, perSecond: 2 } })
      expect(passed(await crowd(limit, 5, () => ({})))).toBe(5)
      await stepClock(-HOUR)
      const answer = await limit.check(call())
      expect(answer).toMatchObject({ by: 'user' })
      expect((answer as { retryAfterMs: number }).retryAfterMs).toBeLessThanOrEqual(500)
      await pause(510)
      expect(await limit.check(call())).toBe('pass')
    })

    it('C13 a clock set back and forth gives a burst for the step forward at most', async () => {
      const limit = limiter({ total: WIDE, user: slow(5) })
      let count = passed(await crowd(limit, 10, () => ({})))
      for (const step of [-HOUR, HOUR, -HOUR, -HOUR]) {
        await stepClock(step)
        count += passed(await crowd(limit, 10, () => ({})))
      }
      expect(count).toBe(5 + 5)
    })

    it('F3 a bucket is remembered into the next window, and forgotten when it is full', async () => {
      const limit = limiter({ total: WIDE, user: { burst: 2, perSecond: 0.2 } }) // full after 10 s
      await crowd(limit, 1, () => ({ userId: 'early' }))
      await stepClock(9_000)
      expect(passed(await crowd(limit, 2, () => ({ userId: 'late' })))).toBe(2)
      await stepClock(2_000)
      expect(await limit.check(call({ userId: 'turns' }))).toBe('pass')
      expect(await limit.check(call({ userId: 'late' }))).toMatchObject({ by: 'user' })
      const fields = async (i: number) => Object.keys(await redis.hgetall(KEYS[i] as string))
      const kept = [...(await fields(1)), ...(await fields(2))]
      expect(kept.sort()).toEqual(['uearly', 'ulate', 'uturns'])
      await stepClock(11_000)
      expect(passed(await crowd(limit, 3, () => ({ userId: 'late' })))).toBe(2)
      expect([...(await fields(1)), ...(await fields(2))].sort()).toEqual(['ulate', 'uturns'])
    })

    it('F3 all keys live for two windows', async () => {
      const limit = limiter({
        total: { burst: 10, perSecond: 10 },
        user: { burst: 3, perSecond: 1 },
      })
      await limit.check(call())
      const keys = (await redis.keys('*')).sort()
      expect(keys).toHaveLength(2)
      for (const key of keys) {
        expect(KEYS).toContain(key)
        const left = await redis.pttl(key)
        expect(left).toBeGreaterThan(5_000)
        expect(left).toBeLessThanOrEqual(6_000)
      }
    })

    it('F3 beyond the budget newcomers share buckets, and those known before do not', async () => {
      const limit = limiter({ total: WIDE, user: slow(2) }, { keyBudget: 1_000, maxBatch: 100 })
      await crowd(limit, 950, (i) => ({ userId: `early-${i}` }))
      const late = await crowd(limit, 2_000, (i) => ({ userId: `late-${i}` }))
      const size = await redis.hlen((await sides())[0] as string)
      expect(size).toBeGreaterThan(1_000)
      expect(size).toBeLessThanOrEqual(1_000 + 1_021)
      expect(passed(late)).toBeGreaterThan(900)
      expect(passed(late)).toBeLessThanOrEqual(2 * 1_021 + 50)
      expect(await limit.check(call({ userId: 'early-7' }))).toBe('pass')
      expect(await limit.check(call({ userId: 'early-7' }))).toMatchObject({ by: 'user' })
      expect((await redis.keys('*')).length).toBeLessThanOrEqual(3)
    }, 60_000)

    const sides = async () => (await redis.keys('*')).filter((key) => key !== KEYS[0])

    it.each(['', 'x', 'nan', '-1', '1e300', '0x10', ' '])(
      'F3 a bucket that says %j neither fails a check nor opens or closes for ever',
      async (damage) => {
        const limit = limiter({ total: WIDE, user: { burst: 2, perSecond: 20 } })
        await limit.check(call())
        await redis.hset((await sides())[0] as string, 'u' + 'u1', damage)
        expect(passed(await crowd(limit, 9, () => ({})))).toBeLessThanOrEqual(2)
        await pause(150)
        expect(await limit.check(call())).toBe('pass')
      },
    )

    it.each(['origin', 'at', 'since', 'side', 'total'])(
      'F3 a clock whose %s is damaged starts anew',
      async (field) => {
        const limit = limiter({ total: slow(5), user: slow(2) })
        await limit.check(call())
        await redis.hset(KEYS[0] as string, field, 'x')
        expect(passed(await crowd(limit, 9, () => ({})))).toBeLessThanOrEqual(2)
        await redis.del(KEYS[0] as string)
        expect(passed(await crowd(limit, 9, () => ({})))).toBe(2)
      },
    )
  })
}
