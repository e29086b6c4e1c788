import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisLike } from 'flash-sale-kit'
import { expect, onTestFinished, test, vi } from 'vitest'
import { ClusterRateCap, LocalRateCap } from '../../src/queue/rate-cap.js'
import { paceDone } from '../../src/redis/scripts.generated.js'
import { mockRedis } from '../harness/redis.js'
import { SetClock } from '../harness/set-clock.js'
import { expectCapped, write } from '../suites/rate-cap.js'

const NEVER = new AbortController().signal

/** The mock's own TIME goes wrong by up to a second. */
function mockOnTime(): RedisLike {
  const clock = new SetClock(mockRedis())
  Object.defineProperty(clock, 'now', { get: () => Date.now() })
  return clock.redis
}

/** A process of those that share the cap of 80. */
const shared = (redis: RedisLike, onError: (error: unknown) => void = () => {}) =>
  new ClusterRateCap({ redis, name: 'orders', perSecond: 80, alonePerSecond: 20, onError })

test('Q4: writers of one process stay under the cap in every second, and use it', async () => {
  const cap = new LocalRateCap(100)
  const commits = await write([cap, cap, cap], { orders: 30, ms: 3_000 })
  expectCapped(commits, 100)
  expect(commits.reduce((sum, c) => sum + c.orders, 0)).toBeGreaterThan(60)
})

test('an aborted wait takes no room', async () => {
  const cap = new LocalRateCap(10)
  const written = await cap.take(10, new AbortController().signal)
  expect(await cap.take(1, AbortSignal.timeout(30))).toBeNull()
  written?.()
})

test('Q4: without Redis each process goes on within its own share', async () => {
  const errors: unknown[] = []
  const down = () => Promise.reject(new Error('Connection is closed.'))
  const redis = { evalsha: down, eval: down }
  const onError = (error: unknown) => errors.push(error)
  const cap = new ClusterRateCap({
    redis,
    name: 'orders',
    perSecond: 100,
    alonePerSecond: 25,
    onError,
  })
  const commits = await write([cap], { orders: 25, ms: 2_500 })
  expectCapped(commits, 25)
  expect(commits.length).toBeGreaterThan(1)
  expect(errors.length).toBeGreaterThan(1)
})

test('what was asked for while Redis was away takes no room once Redis is back', async () => {
  const redis = mockOnTime()
  const kept: (() => void)[] = []
  let away = true
  // As the offline queue of a client does: all that was asked runs when the connection is there, in its order.
  const reached = () => (away ? new Promise<void>((resolve) => kept.push(resolve)) : undefined)
  const client: RedisLike = {
    evalsha: async (...args) => {
      await reached()
      return redis.evalsha(...args)
    },
    eval: (...args) => redis.eval(...args),
  }
  const errors: unknown[] = []
  const alone = () => shared(client, (error) => errors.push(error)).take(20, NEVER)
  await Promise.all([alone(), alone(), alone(), alone()])
  expect(errors).toHaveLength(4)
  away = false
  for (const run of kept) run()
  await sleep(50)
  const written = await shared(redis).take(80, AbortSignal.timeout(3_000))
  expect(written).not.toBeNull()
  written?.()
})

test('that orders are written is said until Redis has heard it', async () => {
  const redis = mockOnTime()
  let failures = 2
  const fails = (script: string) =>
    (script === paceDone.sha || script === paceDone.lua) && failures-- > 0
  const client: RedisLike = {
    evalsha: async (sha, ...args) =>
      fails(sha) ? Promise.reject(new Error('Connection is closed.')) : redis.evalsha(sha, ...args),
    eval: (...args) => redis.eval(...args),
  }
  const written = await shared(client).take(80, NEVER)
  written?.()
  const next = await shared(redis).take(80, AbortSignal.timeout(4_000))
  expect(next).not.toBeNull()
  next?.()
})

test('a commit counts however long it takes; a writer that died does not for long', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => {
    vi.useRealTimers()
  })
  const clock = new SetClock(mockRedis())
  const written = await shared(clock.redis).take(80, NEVER)
  const other = shared(clock.redis)
  const hasRoom = async () => {
    const room = await other.take(1, AbortSignal.timeout(40))
    room?.()
    return room !== null
  }
  const pass = async (seconds: number) => {
    for (let i = 0; i < seconds; i++) {
      clock.now += 1_000
      vi.advanceTimersByTime(1_000)
      await sleep(20)
      if (await hasRoom()) return 'room'
    }
    return 'none'
  }
  expect(await pass(15)).toBe('none')
  written?.()
  await sleep(20)
  expect(await hasRoom()).toBe(false)
  expect(await pass(2)).toBe('room')

  clock.now += 1_000
  await shared(clock.redis).take(80, NEVER)
  vi.clearAllTimers() // as when the process dies
  expect(await pass(4)).toBe('none')
  expect(await pass(2)).toBe('room')
})

test('Q4: a writer of much is given its part beside writers of little', async () => {
  const redis = mockOnTime()
  const commits: { at: number; orders: number }[] = []
  const abort = new AbortController()
  const writer = async (orders: number) => {
    const cap = shared(redis)
    for (;;) {
      const written = await cap.take(orders, abort.signal)
      if (!written) return
      await sleep(20)
      commits.push({ at: performance.now(), orders })
      written()
    }
  }
  const little = [5, 5, 5, 5].map(writer)
  await sleep(500)
  const much = writer(20)
  await sleep(3_000)
  abort.abort()
  await Promise.all([...little, much])
  expectCapped(commits, 80)
  const sum = (orders: number) => commits.filter((c) => c.orders === orders).length * orders
  expect(sum(20)).toBeGreaterThanOrEqual(40)
  expect(sum(5)).toBeGreaterThanOrEqual(80)
})
