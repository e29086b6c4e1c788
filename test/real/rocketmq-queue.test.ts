import { type QueueUnderTest, queueSuite } from 'flash-sale-kit/testing'
import { afterAll, beforeAll, describe, test } from 'vitest'
import type { RocketmqServer } from '../harness/services/rocketmq.js'
import { startRocketmq } from '../harness/services.js'
import { INVISIBLE_MS, MAX_ATTEMPTS, PROXY, Topic } from '../suites/rocketmq.js'

let server: RocketmqServer
beforeAll(async () => {
  server = await startRocketmq({ proxy: PROXY })
})
afterAll(() => server.stop())

async function make(): Promise<QueueUnderTest> {
  const topic = await Topic.on(server)
  return {
    queue: await topic.open(),
    dead: topic.dead,
    maxAttempts: MAX_ATTEMPTS,
    patienceMs: 30_000, // what comes again comes 2 to 5 s later than asked for
    claimMs: INVISIBLE_MS,
    second: () => topic.open(),
    crash: (queue) => topic.crash(queue),
    inject: (text) => topic.inject(text),
    close: () => topic.close(),
  }
}

describe('RocketmqQueue', () => {
  // `lag` is left out: the broker's figure leaves out what consumers hold.
  for (const { name, run } of queueSuite(['durable', 'crash', 'inject']))
    test(name, () => run(make))
})
