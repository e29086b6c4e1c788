import { type QueueUnderTest, queueSuite } from 'flash-sale-kit/testing'
import { afterAll, beforeAll, describe, test } from 'vitest'
import type { KafkaServer } from '../harness/services/kafka.js'
import { startKafka } from '../harness/services.js'
import { MAX_ATTEMPTS, SESSION_MS, Topic } from '../suites/kafka.js'

let server: KafkaServer
beforeAll(async () => {
  server = await startKafka({ config: { 'group.min.session.timeout.ms': '500' } })
})
afterAll(() => server.stop())

async function make(): Promise<QueueUnderTest> {
  const topic = await Topic.on(server)
  return {
    queue: await topic.open(),
    dead: topic.dead,
    maxAttempts: MAX_ATTEMPTS,
    patienceMs: 20_000,
    claimMs: SESSION_MS / 2,
    joinMs: 500,
    second: () => topic.open(),
    crash: (queue) => topic.crash(queue),
    inject: (text) => topic.inject(text),
    close: () => topic.close(),
  }
}

// Several at a time: most of a case is waiting for what must not come.
describe.concurrent('KafkaQueue', { timeout: 120_000 }, () => {
  for (const { name, run } of queueSuite(['durable', 'crash', 'inject', 'lag']))
    test(name, () => run(make))
})
