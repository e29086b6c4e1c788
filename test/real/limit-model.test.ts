import { afterAll, beforeAll } from 'vitest'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { limitModel } from '../suites/limit-model.js'

let fresh: FreshRedis
beforeAll(async () => {
  fresh = await freshRedis()
})
afterAll(() => fresh.destroy())

const open = async () => {
  await fresh.redis.flushall()
  return fresh.redis
}
limitModel('real', open, { runs: 600 })
