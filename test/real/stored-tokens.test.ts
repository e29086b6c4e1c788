import { afterAll, beforeAll, expect, it } from 'vitest'
import { TokenIssuer } from '../../src/token/token-issuer.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { storedTokens } from '../suites/stored-tokens.js'

let fresh: FreshRedis
beforeAll(async () => {
  fresh = await freshRedis()
})
afterAll(() => fresh.destroy())

let opened = 0
storedTokens('Redis', () => fresh.client({ db: opened++ % 16 }))

it('leaves two keys a buyer, both with an end', async () => {
  const redis = fresh.redis
  await redis.flushall()
  const expiresAt = Date.now() + 60_000
  const token = await new TokenIssuer({ store: redis }).issue(
    { activityId: 'a1', userId: '}x{' },
    { expiresAt, epoch: 1 },
  )
  const keys = (await redis.keys('*')).sort()
  expect(keys).toEqual(['seckill:token:{a1}:*}x{', `seckill:token:{a1}:${token}`].sort())
  for (const key of keys) {
    const left = await redis.pttl(key)
    expect(left).toBeGreaterThan(655_000)
    expect(left).toBeLessThanOrEqual(660_000)
  }
})
