import { type QueueUnderTest, queueSuite } from 'flash-sale-kit/testing'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { CLAIM_MS, MAX_ATTEMPTS, Topic } from '../suites/redis-streams.js'

let fresh: FreshRedis
beforeAll(async () => {
  fresh = await freshRedis()
})
afterAll(() => fresh.destroy())

async function make(): Promise<QueueUnderTest> {
  const topic = new Topic(fresh)
  return {
    queue: await topic.open(),
    dead: topic.dead,
    maxAttempts: MAX_ATTEMPTS,
    patienceMs: 3_000,
    claimMs: CLAIM_MS,
    second: () => topic.open(),
    crash: (queue) => topic.crash(queue),
    inject: async (text) => {
      await fresh.redis.xadd(topic.key, '*', 'message', text)
    },
    close: () => topic.close(),
  }
}

describe('RedisStreamQueue', () => {
  for (const { name, run } of queueSuite(['durable', 'crash', 'inject', 'lag', 'age', 'competing']))
    test(name, () => run(make))
})
