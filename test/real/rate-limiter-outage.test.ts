import { setTimeout as pause } from 'node:timers/promises'
import { Cluster } from 'ioredis'
import { afterEach, describe, expect, it } from 'vitest'
import type { LimitRules } from '../../src/gate/limit-rules.js'
import { RateLimiter, type RateLimiterOptions } from '../../src/gate/rate-limiter.js'
import { until } from '../harness/net.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { startRedisCluster } from '../harness/services.js'
import { TcpProxy } from '../harness/tcp-proxy.js'

const WIDE = { burst: 1_000_000, perSecond: 1_000_000 }
const slow = (burst: number) => ({ burst, perSecond: 0.01 })

let cleanUp: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const act of cleanUp.reverse()) await act()
  cleanUp = []
})

async function aRedis(): Promise<FreshRedis> {
  const fresh = await freshRedis()
  cleanUp.push(() => fresh.destroy())
  return fresh
}

const limiter = (
  redis: RateLimiterOptions['redis'],
  submit: LimitRules,
  o: Partial<RateLimiterOptions> = {},
) => new RateLimiter({ redis, resources: { submit }, ...o })

const crowd = (limit: RateLimiter, size: number, userOf: (i: number) => string = () => 'u1') =>
  Promise.all(
    Array.from({ length: size }, (_, i) =>
      limit.check({ resource: 'submit', userId: userOf(i), ip: '203.0.113.9', skuId: 's1' }),
    ),
  )

const passed = (answers: readonly unknown[]) => answers.filter((a) => a === 'pass').length

describe('RateLimiter on a Redis in trouble', () => {
  it('C13 several processes at full load never pass more than burst + rate × time', async () => {
    const { redis, client } = await aRedis()
    // A burst of a second: a machine with other work may stand still for a while, and no token is lost.
    const total = { burst: 1_000, perSecond: 1_000 }
    const pods = [redis, client(), client()].map((r) => limiter(r, { total }, { timeoutMs: 2_000 }))
    const began = performance.now()
    await Promise.all(pods.map((pod) => crowd(pod, 1)))
    let count = pods.length
    const hammer = async (pod: RateLimiter) => {
      while (performance.now() - began < 1_500) {
        const answers = await crowd(pod, 20)
        count += passed(answers)
        await pause(1)
      }
    }
    await Promise.all(pods.map(hammer))
    const seconds = (performance.now() - began) / 1_000
    expect(count).toBeLessThanOrEqual(total.burst + total.perSecond * seconds)
    expect(count).toBeGreaterThan(0.8 * (total.burst + total.perSecond * 1.5))
  })

  it('F3 under overload the total costs Redis some hundred scripts a second, whatever comes', async () => {
    const { redis } = await aRedis()
    const limit = limiter(redis, { total: { burst: 100, perSecond: 100 } })
    await crowd(limit, 200)
    await redis.config('RESETSTAT')
    const began = performance.now()
    let calls = 0
    while (performance.now() - began < 500) {
      await crowd(limit, 500)
      calls += 500
      await pause(0)
    }
    const elapsed = performance.now() - began
    const stats = await redis.info('commandstats')
    const scripts = Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
    expect(calls).toBeGreaterThan(20 * scripts)
    expect(scripts).toBeLessThanOrEqual(2 + (2 * elapsed) / 10)
  })

  it('F3 while the total is used up, a refusal is no command at all', async () => {
    const { redis } = await aRedis()
    const limit = limiter(redis, { total: slow(10) })
    await crowd(limit, 20)
    await redis.config('RESETSTAT')
    expect(passed(await crowd(limit, 5_000))).toBe(0)
    expect(await redis.info('commandstats')).not.toMatch(/cmdstat_(evalsha|eval|hmget):/)
  })

  it('F3 a Redis that dies leaves every process its share, and decides again when it is back', async () => {
    const { redis, server } = await aRedis()
    const total = { burst: 1_000, perSecond: 1_000 }
    const limit = limiter(redis, { total }, { localShare: 0.1, aloneMs: 100 })
    expect(passed(await crowd(limit, 30))).toBe(30)
    await server.kill('SIGKILL')
    const alone = passed(await crowd(limit, 500))
    expect(alone).toBeGreaterThanOrEqual(100)
    expect(alone).toBeLessThanOrEqual(200) // and a hundred a second, by the time they are answered
    await server.restart()
    // In 300 ms the share grows by 30, the whole by 300.
    const decides = async () => {
      await pause(300)
      return passed(await crowd(limit, 200)) > 150
    }
    await until('Redis decides again', decides, 10_000)
  })

  it('F3 a slow Redis holds nobody up for longer than the deadline', async () => {
    const { server, client } = await aRedis()
    const proxy = await TcpProxy.to(server.port)
    cleanUp.push(() => proxy.close())
    const redis = client({ port: proxy.port })
    const total = { burst: 1_000, perSecond: 0.1 }
    const limit = limiter(redis, { total }, { timeoutMs: 400, aloneMs: 60_000 })
    expect(passed(await crowd(limit, 1))).toBe(1)
    proxy.delay(2_000)
    const began = performance.now()
    expect(passed(await crowd(limit, 200))).toBe(50) // a twentieth
    await crowd(limit, 200)
    expect(performance.now() - began).toBeLessThan(1_500)
  })

  it('C13 a call held up on its way is counted when it arrives, by Redis’ clock', async () => {
    const { server, client, redis } = await aRedis()
    const proxy = await TcpProxy.to(server.port)
    cleanUp.push(() => proxy.close())
    const rules = { total: WIDE, user: { burst: 5, perSecond: 5 } }
    const held = limiter(client({ port: proxy.port }), rules, { timeoutMs: 5_000 })
    const other = limiter(redis, rules, { timeoutMs: 5_000 })
    expect(passed(await crowd(held, 1))).toBe(1)
    proxy.hold()
    const late = crowd(held, 5)
    await pause(600)
    expect(passed(await crowd(other, 10))).toBe(5)
    proxy.pass()
    expect(passed(await late)).toBeLessThanOrEqual(1)
  })

  it('F3 works on a Cluster: what one script touches lies in one slot', async () => {
    const server = await startRedisCluster({ config: { 'cluster-announce-ip': '127.0.0.1' } })
    const redis = new Cluster([{ host: server.host, port: server.port }])
    redis.on('error', () => {})
    cleanUp.push(
      () => server.stop(),
      () => redis.disconnect(),
    )
    const rules = { total: WIDE, ip: slow(50), user: slow(2), sku: slow(40) }
    const errors: unknown[] = []
    const limit = limiter(redis, rules, { timeoutMs: 5_000, onError: (e) => errors.push(e) })
    expect(passed(await crowd(limit, 30, (i) => `u${i % 10}`))).toBe(20)
    expect(passed(await crowd(limit, 60, (i) => `v${i}`))).toBe(20)
    expect(errors).toEqual([])
  })

  it('F3 a Redis that has forgotten its scripts, or is full, or read-only', async () => {
    const { redis } = await aRedis()
    const limit = limiter(redis, { total: slow(100) }, { localShare: 0.1, aloneMs: 10 })
    await crowd(limit, 10)
    await redis.script('FLUSH')
    expect(passed(await crowd(limit, 10))).toBe(10)
    await redis.config('SET', 'maxmemory', '1')
    expect(passed(await crowd(limit, 100))).toBe(10)
    await redis.config('SET', 'maxmemory', '0')
    await redis.config('SET', 'min-replicas-to-write', '1')
    await pause(20)
    expect(passed(await crowd(limit, 100))).toBe(0)
    await redis.config('SET', 'min-replicas-to-write', '0')
    await pause(20)
    expect(passed(await crowd(limit, 100))).toBe(80)
  })
})
