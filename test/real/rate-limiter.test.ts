import { afterAll, beforeAll } from 'vitest'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { rateLimiter } from '../suites/rate-limiter.js'

let fresh: FreshRedis
beforeAll(async () => {
  fresh = await freshRedis()
})
afterAll(() => fresh.destroy())

rateLimiter('real', async () => {
  await fresh.redis.flushall()
  return fresh.redis
})
