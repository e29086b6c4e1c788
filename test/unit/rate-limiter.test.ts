import fc from 'fast-check'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { RateLimiter } from '../../src/gate/rate-limiter.js'
import { mockRedis } from '../harness/redis.js'
import { rateLimiter } from '../suites/rate-limiter.js'

/**
 * The mock's TIME takes its seconds from Date, rounded, and its microseconds from process.hrtime, which knows nothing of
 * them: it jumps to and fro within a second. With these nanoseconds the two add up to Date.
 */
beforeEach(() => {
  const { bigint } = process.hrtime
  const hrtime = (): [number, number] => {
    const now = Date.now()
    return [0, (now - Math.round(now / 1_000) * 1_000) * 1e6]
  }
  vi.spyOn(process, 'hrtime').mockImplementation(Object.assign(hrtime, { bigint }))
})
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

rateLimiter('mock', async () => mockRedis())

/**
 * What happens to the one caller of a bucket: time passes (or the clock is set back, in which case it has not), then he
 * calls some times at once. A token bucket counted by hand, in thousandths of a token, must agree on every call. Like the
 * script it remembers the clock only when it writes: a refusal writes nothing, so of a step back behind it no more is lost
 * than the time since the call before.
 */
it('C13 agrees with a bucket counted by hand, whatever the clock does', async () => {
  const BURST = 5
  const PER_SECOND = 4
  const step = fc.record({
    ms: fc.oneof(
      fc.integer({ min: 0, max: 700 }),
      fc.integer({ min: -3_600_000, max: -1 }),
      fc.constant(60_000),
    ),
    calls: fc.integer({ min: 1, max: 7 }),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 30 }), async (steps) => {
      vi.useFakeTimers({ toFake: ['Date'], now: 1_790_000_000_123 })
      const rate = { burst: BURST, perSecond: PER_SECOND }
      const total = { burst: 1_000_000, perSecond: 1_000_000 }
      const limiter = new RateLimiter({
        redis: mockRedis(),
        resources: { submit: { total, user: rate } },
        timeoutMs: 10_000,
      })
      let milliTokens = BURST * 1_000
      let writtenAt: number | null = null
      for (const { ms, calls } of steps) {
        vi.setSystemTime(Date.now() + ms)
        const now = Date.now()
        const passed = writtenAt === null ? 0 : Math.max(0, now - writtenAt)
        const there = Math.min(BURST * 1_000, milliTokens + passed * PER_SECOND)
        const call = { resource: 'submit', userId: 'u1', ip: '' }
        const answers = await Promise.all(Array.from({ length: calls }, () => limiter.check(call)))
        const due = Math.min(calls, Math.floor(there / 1_000))
        expect(answers.filter((a) => a === 'pass')).toHaveLength(due)
        if (due > 0) milliTokens = there - due * 1_000
        if (due > 0 || writtenAt === null || now < writtenAt) writtenAt = now
      }
    }),
    { numRuns: 15 },
  )
}, 60_000)
