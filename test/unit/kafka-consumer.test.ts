import type { Handled } from 'flash-sale-kit'
import { KafkaQueue } from 'flash-sale-kit/kafka'
import { afterEach, expect, it, vi } from 'vitest'
import type { EachBatch } from '../../src/kafka/client.js'
import { batchOf } from '../suites/kafka.js'

/** Just enough of kafkajs to hand messages to `eachBatch` and to see what is committed. */
class Fake {
  eachBatch: ((payload: EachBatch) => Promise<void>) | null = null
  readonly commits: string[] = []
  /** Thrown by the next calls, one each. */
  readonly commitErrors: Error[] = []
  readonly heartbeat = vi.fn(async () => {})
  readonly pausedFor = vi.fn(() => () => {})
  joined = () => {}

  readonly kafka = {
    producer: () => ({ connect: async () => {}, send: async () => {}, disconnect: async () => {} }),
    admin: () => ({
      connect: async () => {},
      disconnect: async () => {},
      listTopics: async () => ['t'],
      fetchOffsets: async () => [{ topic: 't', partitions: [] }],
    }),
    consumer: () => ({
      connect: async () => {},
      subscribe: async () => {},
      disconnect: async () => {},
      pause: () => {},
      resume: () => {},
      on: (event: string, listener: () => void) => {
        if (event === 'consumer.group_join') this.joined = listener
      },
      run: async (o: { eachBatch: (payload: EachBatch) => Promise<void> }) => {
        this.joined()
        this.eachBatch = o.eachBatch
      },
    }),
  } as never

  async fetch(count: number): Promise<void> {
    await vi.waitFor(() => expect(this.eachBatch).not.toBeNull())
    const messages = Array.from({ length: count }, (_, i) => ({
      offset: String(i),
      value: Buffer.from(JSON.stringify(batchOf())),
    }))
    await this.eachBatch?.({
      batch: { partition: 0, messages },
      resolveOffset: () => {},
      heartbeat: this.heartbeat,
      pause: this.pausedFor,
      commitOffsetsIfNecessary: async ({ topics }) => {
        const error = this.commitErrors.shift()
        if (error) throw error
        this.commits.push(topics[0]?.partitions[0]?.offset ?? '')
      },
    })
  }
}

const queues: KafkaQueue[] = []
afterEach(async () => {
  for (const queue of queues.splice(0)) await queue.stop()
})

function consuming(fake: Fake, handler: () => Promise<Handled>, maxBatches = 1) {
  const errors: unknown[] = []
  const queue = new KafkaQueue({
    kafka: fake.kafka,
    topic: 't',
    maxAttempts: 2,
    onError: (error) => errors.push(error),
  })
  queues.push(queue)
  const attempts: number[] = []
  queue.consume(
    async ({ attempt }) => {
      attempts.push(attempt)
      return handler()
    },
    { maxBatches },
  )
  return { attempts, errors }
}

const farewell = () => Object.assign(new Error('rebalancing'), { type: 'REBALANCE_IN_PROGRESS' })

it('commits before each hand-over and after the last', async () => {
  const fake = new Fake()
  const { attempts } = consuming(fake, async () => 'ack')
  await fake.fetch(3)
  expect(attempts).toEqual([1, 1, 1])
  expect(fake.commits).toEqual(['0', '1', '2', '3'])
})

it('C15: hands nothing over when the broker does not take the commit, and counts no attempt for it', async () => {
  const fake = new Fake()
  const { attempts, errors } = consuming(fake, async () => 'ack')
  const broken = new Error('connection closed')
  fake.commitErrors.push(broken, broken, broken, broken)
  for (let i = 0; i < 4; i++) await expect(fake.fetch(1)).rejects.toBe(broken)
  expect(attempts).toEqual([])
  expect(errors).toEqual([broken, broken, broken, broken])
  await fake.fetch(1)
  expect(attempts).toEqual([1])
  fake.commitErrors.push(farewell())
  fake.joined()
  await expect(fake.fetch(1)).rejects.toThrow('rebalancing')
  expect(attempts).toEqual([1])
  expect(errors.length).toBe(4) // a rebalance is no error
})

it('C15: once the broker asks to join again, commits what is done and starts nothing more', async () => {
  const fake = new Fake()
  const { attempts } = consuming(fake, async () => {
    fake.heartbeat.mockRejectedValueOnce(farewell())
    return 'ack'
  })
  await expect(fake.fetch(5)).rejects.toThrow('rebalancing')
  expect(attempts.length).toBe(1)
  expect(fake.commits).toEqual(['0', '1'])
  await expect(fake.fetch(5)).rejects.toThrow('rebalancing') // another partition of the same fetch
  expect(attempts.length).toBe(1)
})

it('commits nothing after a join in the middle of a hand-over', async () => {
  const fake = new Fake()
  const { attempts } = consuming(fake, async () => {
    fake.joined()
    return 'ack'
  })
  await fake.fetch(5)
  expect(attempts.length).toBe(1)
  expect(fake.commits).toEqual(['0'])
})

it('stays a member through many hand-overs, each shorter than a heartbeat interval', async () => {
  const fake = new Fake()
  consuming(fake, async () => 'ack')
  await fake.fetch(20)
  expect(fake.heartbeat.mock.calls.length).toBeGreaterThanOrEqual(20)
})

it('pauses the partition until the next retry is due', async () => {
  const fake = new Fake()
  const { attempts } = consuming(fake, async () => 'retry')
  await fake.fetch(2)
  expect(attempts.length).toBe(2)
  expect(fake.pausedFor).toHaveBeenCalledTimes(1)
  expect(fake.commits.at(-1)).toBe('0')
})
