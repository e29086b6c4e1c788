import { afterAll, beforeAll } from 'vitest'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { streamModel } from '../suites/stream-model.js'

let fresh: FreshRedis
beforeAll(async () => {
  fresh = await freshRedis()
})
afterAll(() => fresh.destroy())

const open = async () => {
  await fresh.redis.flushall()
  return fresh.redis
}
streamModel(open, { runs: 3_000 })
