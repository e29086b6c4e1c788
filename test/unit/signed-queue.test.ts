import { type Batch, MemoryQueue, type Queue, signedQueue } from 'flash-sale-kit'
import { type QueueUnderTest, queueSuite } from 'flash-sale-kit/testing'
import { afterEach, describe, expect, it, test } from 'vitest'
import { MessageMacs } from '../../src/queue/message-mac.js'
import { until } from '../harness/net.js'
import { batchOf } from '../suites/redis-streams.js'

const key = (kid: string, byte: number) => ({ kid, secret: Buffer.alloc(32, byte) })
const keys = [key('k1', 1)]
const MAC_IS_OURS = 'carries a MAC along'

async function make(): Promise<QueueUnderTest> {
  const dead: Batch[] = []
  const inner = new MemoryQueue({
    retryMs: 10,
    maxAttempts: 4,
    onDead: ({ mac: _, ...batch }) => dead.push(batch),
  })
  const queue = signedQueue(inner, { keys })
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

describe('as any queue', () => {
  for (const { name, run } of queueSuite(['lag', 'age', 'competing']))
    if (name !== MAC_IS_OURS) test(name, () => run(make))
})

const queues: Queue[] = []
afterEach(async () => {
  for (const queue of queues.splice(0)) await queue.stop()
})

/** The broker as its owner sees it, and the library's view of it. */
function open(onForged?: (batch: Batch, fault: string) => void) {
  const dead: string[] = []
  const broker = new MemoryQueue({ retryMs: 5, onDead: (b) => dead.push(b.batchId) })
  queues.push(broker)
  const queue = signedQueue(broker, { keys, ...(onForged ? { onForged } : {}) })
  return { broker, queue, dead }
}
const signal = AbortSignal.timeout(60_000)

it('signs what it sends, over a MAC that was there before', async () => {
  const { broker, queue } = open()
  const seen: Batch[] = []
  await queue.send({ ...batchOf(), mac: 'of somebody else' }, { signal })
  broker.consume(
    async ({ batches }) => {
      seen.push(...batches)
      return 'ack'
    },
    { maxBatches: 1 },
  )
  await until('it arrives', () => seen.length === 1)
  expect(seen[0]?.mac).toMatch(/^1\.k1\.[\w-]{43}$/)
})

it('sets aside what is unsigned, forged or changed; the rest of the same hand-over goes on', async () => {
  const reports: [string, string][] = []
  const { broker, queue, dead } = open((batch, fault) => reports.push([batch.batchId, fault]))
  const good = [batchOf(), batchOf(3), batchOf()]
  const signed = new MessageMacs(keys).sign(batchOf())
  const bad = {
    missing: batchOf(),
    malformed: { ...batchOf(), mac: 'x' },
    'unknown-key': new MessageMacs([key('k9', 1)]).sign(batchOf()),
    wrong: {
      ...signed,
      reservations: signed.reservations.map((r) => ({ ...r, quantity: 1_000 })),
    },
  }
  for (const batch of [good[0], bad.missing, bad.malformed, good[1], bad['unknown-key'], bad.wrong])
    await (good.includes(batch as Batch) ? queue : broker).send(batch as Batch, { signal })
  await queue.send(good[2] as Batch, { signal })

  const seen: Batch[][] = []
  queue.consume(
    async ({ batches, attempt }) => {
      seen.push([...batches])
      return attempt === 1 ? ['ack', 'retry', 'ack'] : 'ack'
    },
    { maxBatches: 16 },
  )
  await until('the retried one comes again', () => seen.length === 2)
  expect(seen).toEqual([good, [good[1]]])
  expect(reports.sort()).toEqual(
    Object.entries(bad)
      .map(([fault, b]) => [b.batchId, fault])
      .sort(),
  )
  expect(dead.sort()).toEqual(
    Object.values(bad)
      .map((b) => b.batchId)
      .sort(),
  )
  expect((await broker.lag()).messages).toBe(0)
})

it('shows a hand-over of forgeries to no handler, and minds no callback that throws', async () => {
  const { broker, queue, dead } = open(() => {
    throw new Error('the pager is down')
  })
  await broker.send(batchOf())
  await broker.send(batchOf())
  let handled = 0
  queue.consume(
    async () => {
      handled++
      return 'ack'
    },
    { maxBatches: 16 },
  )
  await until('both are set aside', () => dead.length === 2)
  expect(handled).toBe(0)
})

it('a throw of the handler is a retry of what was signed, not of what was forged', async () => {
  const { broker, queue, dead } = open()
  const good = batchOf()
  const forged = batchOf()
  await broker.send(forged)
  await queue.send(good, { signal })
  const attempts: number[] = []
  queue.consume(
    async ({ attempt }) => {
      attempts.push(attempt)
      if (attempt === 1) throw new Error('no database')
      return 'ack'
    },
    { maxBatches: 16 },
  )
  await until('the good one comes again', () => attempts.length === 2)
  expect(dead).toEqual([forged.batchId])
})

it('refuses bad options and input', async () => {
  const broker = new MemoryQueue()
  for (const [queue, o] of [
    [null, { keys }],
    [{}, { keys }],
    [broker, null],
    [broker, {}],
    [broker, { keys: [] }],
    [broker, { keys, onForged: 'x' }],
  ])
    expect(() => signedQueue(queue as never, o as never)).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/^BAD_/) }),
    )
  const { queue } = open()
  for (const batch of [null, 5, {}, { batchId: 'b1' }])
    await expect(queue.send(batch as never, { signal })).rejects.toMatchObject({
      code: 'BAD_INPUT',
    })
  expect(() => queue.consume(null as never, { maxBatches: 1 })).toThrow(
    expect.objectContaining({ code: 'BAD_INPUT' }),
  )
})
