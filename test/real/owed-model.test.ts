import { afterAll, beforeAll } from 'vitest'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { owedModel } from '../suites/owed-model.js'

let fresh: FreshRedis
beforeAll(async () => {
  fresh = await freshRedis()
})
afterAll(() => fresh.destroy())

const open = async () => {
  await fresh.redis.flushall()
  return fresh.redis
}
owedModel('real', open, { runs: 500 })
