import { afterAll, beforeAll } from 'vitest'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { stockBucket } from '../suites/stock-bucket.js'

let fresh: FreshRedis
beforeAll(async () => {
  fresh = await freshRedis()
})
afterAll(() => fresh.destroy())

stockBucket('real', async () => {
  await fresh.redis.flushall()
  return fresh.redis
})
