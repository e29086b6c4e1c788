import { afterAll, beforeAll } from 'vitest'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { stockModel } from '../suites/stock-model.js'

let fresh: FreshRedis
beforeAll(async () => {
  fresh = await freshRedis()
})
afterAll(() => fresh.destroy())

const open = async () => {
  await fresh.redis.flushall()
  return fresh.redis
}
stockModel('real', open, { runs: 500 })
