import { type Batch, MemoryQueue } from 'flash-sale-kit'
import { type QueueUnderTest, queueSuite } from 'flash-sale-kit/testing'
import { describe, test } from 'vitest'

async function make(): Promise<QueueUnderTest> {
  const dead: (Batch | string)[] = []
  const queue = new MemoryQueue({ retryMs: 10, maxAttempts: 4, onDead: (m) => dead.push(m) })
  await queue.start()
  return {
    queue,
    dead,
    maxAttempts: 4,
    patienceMs: 2_000,
    claimMs: 0,
    second: async () => queue,
    close: () => queue.stop(),
  }
}

describe('MemoryQueue', () => {
  for (const { name, run } of queueSuite(['lag', 'age', 'competing'])) test(name, () => run(make))
})
