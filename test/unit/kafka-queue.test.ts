import { KafkaQueue } from 'flash-sale-kit/kafka'
import { describe, expect, it } from 'vitest'
import { Progress } from '../../src/kafka/progress.js'
import { batchOf } from '../suites/kafka.js'

const signal = AbortSignal.timeout(600_000)

/** A client whose producer answers what is put here, one answer a send; after the last, that one again. */
function stub(...answers: (Error | 'ok' | 'never')[]) {
  let sends = 0
  const producer = {
    connect: async () => {},
    disconnect: async () => {},
    send: async () => {
      const answer = answers[Math.min(sends++, answers.length - 1)]
      if (answer === 'never') await new Promise(() => {})
      if (answer instanceof Error) throw answer
    },
  }
  const kafka = { producer: () => producer, consumer: () => ({}), admin: () => ({}) }
  return { kafka: kafka as never, sends: () => sends }
}

/** As kafkajs reports what it gave up on. */
const gaveUp = (type: string) =>
  Object.assign(new Error('wrapped'), { cause: Object.assign(new Error(type), { type }) })

describe('what a send is', () => {
  it.each([
    ['MESSAGE_TOO_LARGE', 'rejected'],
    ['RECORD_LIST_TOO_LARGE', 'rejected'],
    ['UNKNOWN_TOPIC_OR_PARTITION', 'rejected'],
    ['INVALID_TOPIC_EXCEPTION', 'rejected'],
    ['TOPIC_AUTHORIZATION_FAILED', 'rejected'],
    ['CLUSTER_AUTHORIZATION_FAILED', 'rejected'],
    ['SASL_AUTHENTICATION_FAILED', 'rejected'],
    ['POLICY_VIOLATION', 'rejected'],
    ['INVALID_RECORD', 'rejected'],
    ['REQUEST_TIMED_OUT', 'unknown'],
    ['NOT_ENOUGH_REPLICAS_AFTER_APPEND', 'unknown'],
    ['NOT_LEADER_FOR_PARTITION', 'unknown'],
    ['CORRUPT_MESSAGE', 'unknown'],
    ['UNKNOWN', 'unknown'],
    ['SOMETHING_NEW', 'unknown'],
  ])('%s: %s', async (type, sent) => {
    const { kafka } = stub(gaveUp(type))
    const queue = new KafkaQueue({ kafka, topic: 't', sendTimeoutMs: 150 })
    expect(await queue.send(batchOf(), { signal })).toBe(sent)
  })

  it('accepted after what passes by itself', async () => {
    const passes = ['UNKNOWN_TOPIC_OR_PARTITION', 'NOT_LEADER_FOR_PARTITION'].map(gaveUp)
    const { kafka, sends } = stub(...passes, 'ok')
    const queue = new KafkaQueue({ kafka, topic: 't' })
    expect(await queue.send(batchOf(), { signal })).toBe('accepted')
    expect(sends()).toBe(3)
  })

  it('C14: unknown when a refusal follows an attempt that may have been stored', async () => {
    const { kafka } = stub(new Error('connection closed'), gaveUp('TOPIC_AUTHORIZATION_FAILED'))
    const queue = new KafkaQueue({ kafka, topic: 't' })
    expect(await queue.send(batchOf(), { signal })).toBe('unknown')
  })

  it('unknown, and not begun, when too much is unanswered', async () => {
    const { kafka, sends } = stub('never')
    const queue = new KafkaQueue({ kafka, topic: 't', sendTimeoutMs: 1 })
    const large = batchOf(1_000)
    const bytes = JSON.stringify(large).length
    const most = Math.floor((64 * 1024 * 1024) / bytes)
    for (let i = 0; i < most + 20; i += 50)
      await Promise.all(Array.from({ length: 50 }, () => queue.send(large, { signal })))
    expect(sends()).toBe(most)
  })
})

describe('bad options are refused', () => {
  const { kafka } = stub('ok')
  it.each([
    ['kafka', [undefined, null, {}, 'x']],
    ['topic', [undefined, '', 'a b', 'ä', '.', '..', 'x'.repeat(250), 5]],
    ['group', ['', 'a b', 5, null]],
    ['deadTopic', ['', 'a b', 't', null]],
    ['sendTimeoutMs', [0, 60_001, '500', 1.5, Number.NaN]],
    ['startTimeoutMs', [0, 99]],
    ['lagTimeoutMs', [0, 60_001]],
    ['maxAttempts', [0, 1.5, 1_001]],
    ['retryMs', [0, -1, 60_001]],
    ['pollMs', [0, 10_001]],
    ['sessionTimeoutMs', [0, 99]],
    ['rebalanceTimeoutMs', [0, 99]],
    ['refreshMs', [0, 99]],
    ['onDead', [null, 5]],
    ['onError', [null, 5]],
  ] as const)('%s', (name, values) => {
    for (const value of values)
      expect(
        () => new KafkaQueue({ kafka, topic: 't', [name]: value } as never),
        String(value),
      ).toThrow(expect.objectContaining({ code: 'BAD_OPTION' }))
  })
})

describe('Progress', () => {
  const messages = ['7', '8', '10', '11'].map((offset) => ({ offset, value: null }))
  const offsets = (some: readonly { offset: string }[]) => some.map((m) => m.offset)

  it('commits up to the first that is open, and passes what is settled behind it', () => {
    const progress = new Progress(1_000)
    expect(offsets(progress.open(messages))).toEqual(['7', '8', '10', '11'])
    expect(progress.commit).toEqual({ offset: '7', metadata: '' })
    progress.begin(messages.slice(0, 3))
    expect(progress.commit).toEqual({ offset: '7', metadata: '{"upTo":"10","tries":{}}' })
    progress.settle('7')
    progress.again('8')
    progress.settle('10')
    expect(offsets(progress.open(messages))).toEqual(['8', '11'])
    expect(offsets(progress.open(messages))).toEqual(['8', '11'])
    expect(offsets(progress.due(progress.open(messages), 5))).toEqual(['11'])
    expect(progress.waitMs([{ offset: '8', value: null }])).toBeGreaterThan(900)
    expect(progress.commit.offset).toBe('8')
    progress.settle('8')
    progress.begin(messages.slice(3))
    progress.settle('11')
    expect(progress.open(messages)).toEqual([])
    expect(progress.commit).toEqual({ offset: '12', metadata: '' })
  })

  it('tells the next owner who was tried how often', () => {
    const first = new Progress(1_000)
    first.open(messages)
    first.begin(messages.slice(0, 2))
    first.begin(messages.slice(1, 2))
    const next = new Progress(1_000, first.commit.metadata)
    next.open(messages)
    next.begin(messages)
    expect(messages.map((m) => next.attempt(m.offset))).toEqual([2, 3, 1, 1])
    next.takeBack(messages.slice(0, 1))
    expect(next.attempt('7')).toBe(1)
  })

  it.each([null, '', 'x', '5', '{}', '{"upTo":"-1"}', '{"upTo":"9","tries":{"8":"3"}}'])(
    'does not stumble over the metadata %s of a stranger',
    (metadata) => {
      const progress = new Progress(1_000, metadata)
      progress.open(messages)
      progress.begin(messages)
      expect(progress.attempt('11')).toBe(1)
    },
  )

  it('keeps its metadata below 4,096 bytes', () => {
    const many = Array.from({ length: 2_000 }, (_, i) => ({
      offset: String(9_223_372_036_854_000_000n + BigInt(i)),
      value: null,
    }))
    const progress = new Progress(1_000)
    progress.open(many)
    for (let i = 0; i < 900; i++) progress.begin(many)
    expect(Buffer.byteLength(progress.commit.metadata)).toBeLessThan(4_096)
  })
})
