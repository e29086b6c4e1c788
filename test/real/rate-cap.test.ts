import { afterAll, beforeAll, expect, test } from 'vitest'
import { ClusterRateCap } from '../../src/queue/rate-cap.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { expectCapped, write } from '../suites/rate-cap.js'

let redis: FreshRedis
beforeAll(async () => {
  redis = await freshRedis()
})
afterAll(() => redis.destroy())

const cap = (name: string, perSecond: number) =>
  new ClusterRateCap({
    redis: redis.client(),
    name,
    perSecond,
    alonePerSecond: perSecond / 4,
    onError: (error) => expect.fail(String(error)),
  })

test('Q4: four workers together stay under the cap in every second, and use it', async () => {
  const commits = await write(
    [1, 2, 3, 4].map(() => cap('four', 100)),
    { orders: 25, ms: 4_000 },
  )
  expectCapped(commits, 100)
  expect(commits.reduce((sum, c) => sum + c.orders, 0)).toBeGreaterThan(80)
})

test('a writer that died counts until its lease ends, and the key goes by itself', async () => {
  const dead = cap('dead', 10)
  await dead.take(10, new AbortController().signal)
  expect(await cap('dead', 10).take(1, AbortSignal.timeout(100))).toBeNull()
  const ttl = await redis.redis.pttl('seckill:pace:{dead}')
  expect(ttl).toBeGreaterThan(1_000)
  expect(ttl).toBeLessThanOrEqual(60_000)
})

test('more than fits a second is let through alone rather than never', async () => {
  const one = cap('big', 4)
  const written = await one.take(9, new AbortController().signal)
  expect(written).not.toBeNull()
  written?.()
})
