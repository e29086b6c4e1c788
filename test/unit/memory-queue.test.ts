import { afterEach, describe, expect, it } from 'vitest'
import type { Delivery, Handled } from '../../src/core/queue.js'
import type { Batch } from '../../src/core/types.js'
import { MemoryQueue, type MemoryQueueOptions } from '../../src/queue/memory-queue.js'
import { NO_COUNT, NO_ID } from '../suites/stock-bucket/input.js'
import { REF, reservationOf } from '../suites/stock-bucket/world.js'

const queues: MemoryQueue[] = []
afterEach(async () => {
  for (const queue of queues.splice(0)) await queue.stop({ drainMs: 100 })
})

function open(o: MemoryQueueOptions = {}) {
  const queue = new MemoryQueue({ retryMs: 5, ...o })
  queues.push(queue)
  return queue
}
const batch = (batchId: string): Batch => ({
  schema: 1,
  batchId,
  ...REF,
  reservations: [reservationOf()],
})
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const seenBy = (seen: Delivery[]) => seen.map((d) => d.batches.map((b) => b.batchId).join(' '))

/** Collects deliveries; `answer` says what becomes of each. */
function collect(answer: (d: Delivery) => Promise<Handled> | Handled = () => 'ack') {
  const seen: Delivery[] = []
  const handler = async (d: Delivery) => {
    seen.push(d)
    return answer(d)
  }
  return { seen, handler }
}
async function until(ready: () => boolean) {
  for (let i = 0; i < 400 && !ready(); i++) await sleep(5)
  expect(ready()).toBe(true)
}

it('Q3 is not durable and says so: a send is unknown', async () => {
  const queue = open()
  expect(await queue.send(batch('b1'))).toBe('unknown')
})

it('hands over what is there, several at once, in order, and forgets it when acknowledged', async () => {
  const queue = open()
  for (const id of ['b1', 'b2', 'b3']) await queue.send(batch(id))
  expect(await queue.lag()).toMatchObject({ messages: 3 })
  const { seen, handler } = collect()
  queue.consume(handler, { maxBatches: 2 })
  await until(() => seen.length === 2)
  expect(seenBy(seen)).toEqual(['b1 b2', 'b3'])
  expect(seen[0]?.attempt).toBe(1)
  expect(await queue.lag()).toEqual({ messages: 0, oldestAgeMs: null })
  await queue.send(batch('b4'))
  await until(() => seen.length === 3)
})

it('holds a batch once, as long as it is waiting or being handled', async () => {
  const queue = open()
  let done = () => {}
  const { seen, handler } = collect(
    () =>
      new Promise((resolve) => {
        done = () => resolve('ack')
      }),
  )
  queue.consume(handler, { maxBatches: 8 })
  await queue.send(batch('b1'))
  await until(() => seen.length === 1)
  await queue.send(batch('b1'))
  expect((await queue.lag()).messages).toBe(1)
  done()
  await sleep(5)
  expect((await queue.lag()).messages).toBe(0)
  await queue.send(batch('b1')) // the relay again, later: consumers do not mind
  await until(() => seen.length === 2)
  done()
})

it('holds maxMessages at most; what does not fit stays owed in Redis', async () => {
  const queue = open({ maxMessages: 2 })
  for (const id of ['b1', 'b2', 'b3']) expect(await queue.send(batch(id))).toBe('unknown')
  expect((await queue.lag()).messages).toBe(2)
})

it('knows the age of the oldest message', async () => {
  const queue = open()
  await queue.send(batch('b1'))
  await sleep(30)
  await queue.send(batch('b2'))
  const { oldestAgeMs } = await queue.lag()
  expect(oldestAgeMs).toBeGreaterThanOrEqual(25)
})

it.each([
  ['retry', () => 'retry'],
  [
    'a throw',
    () => {
      throw new Error('no')
    },
  ],
  ['a rejection', () => Promise.reject(new Error('no'))],
  ['nothing', () => undefined],
  ['another word', () => 'nack'],
  ['null', () => null],
])(
  'delivers again after %s, with the number of the attempt, until maxAttempts',
  async (_, answer) => {
    const dead: string[] = []
    const queue = open({ maxAttempts: 3, onDead: (b, why) => dead.push(`${b.batchId} ${why}`) })
    const { seen, handler } = collect(answer as never)
    queue.consume(handler, { maxBatches: 8 })
    await queue.send(batch('b1'))
    await until(() => dead.length === 1)
    expect(dead).toEqual(['b1 tried 3 times'])
    expect(seen.map((d) => d.attempt)).toEqual([1, 2, 3])
    expect((await queue.lag()).messages).toBe(0)
  },
)

it('waits longer before each attempt, and does not hold up others meanwhile', async () => {
  const queue = open({ retryMs: 40 })
  const times: number[] = []
  queue.consume(
    async (d) => {
      if (d.batches.some((b) => b.batchId === 'bad')) {
        times.push(performance.now())
        return times.length < 3 ? 'retry' : 'ack'
      }
      return 'ack'
    },
    { maxBatches: 1 },
  )
  await queue.send(batch('bad'))
  await until(() => times.length === 1)
  await queue.send(batch('good'))
  await sleep(20)
  expect((await queue.lag()).messages).toBe(1)
  await until(() => times.length === 3)
  const [first = 0, second = 0, third = 0] = times
  expect(second - first).toBeGreaterThanOrEqual(38)
  expect(third - second).toBeGreaterThanOrEqual(76)
})

it('sets a dead one aside at once, and tells; a callback that throws ends nothing', async () => {
  const dead: string[] = []
  const queue = open({
    onDead: (b, why) => {
      dead.push(`${b.batchId} ${why}`)
      throw new Error('the pager is down')
    },
  })
  const { seen, handler } = collect((d) => (d.batches[0]?.batchId === 'b1' ? 'dead' : 'ack'))
  queue.consume(handler, { maxBatches: 1 })
  await queue.send(batch('b1'))
  await queue.send(batch('b2'))
  await until(() => seen.length === 2)
  expect(dead).toEqual(['b1 set aside by the consumer'])
  expect((await queue.lag()).messages).toBe(0)
})

describe('a consumer', () => {
  it('pauses within the message it handles, and goes on when told', async () => {
    const queue = open()
    let done = () => {}
    const { seen, handler } = collect((d) =>
      d.attempt > 9
        ? 'ack'
        : new Promise((resolve) => {
            done = () => resolve('ack')
          }),
    )
    const consumer = queue.consume(handler, { maxBatches: 1 })
    await queue.send(batch('b1'))
    await queue.send(batch('b2'))
    await until(() => seen.length === 1)
    let paused = false
    const pausing = consumer.pause().then(() => {
      paused = true
    })
    await sleep(10)
    expect(paused).toBe(false)
    done()
    await pausing
    await queue.send(batch('b3'))
    await sleep(20)
    expect(seen).toHaveLength(1)
    consumer.resume()
    await until(() => seen.length === 2)
    done()
    await until(() => seen.length === 3)
    done()
  })

  it('that stops leaves what it did not acknowledge to the others, at once', async () => {
    const queue = open({ retryMs: 20 })
    const first = collect(() => 'retry')
    const one = queue.consume(first.handler, { maxBatches: 1 })
    await queue.send(batch('b1'))
    await until(() => first.seen.length === 1)
    const second = collect()
    queue.consume(second.handler, { maxBatches: 1 })
    await one.stop()
    await until(() => second.seen.length === 1)
    expect(second.seen[0]?.attempt).toBeGreaterThan(1)
  })

  it('asleep hears of a retry that another one gave back', async () => {
    const queue = open({ retryMs: 20 })
    const idle = collect()
    let fail = () => {}
    const busy = queue.consume(
      () =>
        new Promise((resolve) => {
          fail = () => resolve('retry')
        }),
      { maxBatches: 1 },
    )
    await queue.send(batch('b1'))
    queue.consume(idle.handler, { maxBatches: 1 })
    await sleep(10)
    const stopping = busy.stop()
    fail()
    await stopping
    await until(() => idle.seen.length === 1)
  })

  it('that stops tells its handler by the signal, and waits for it', async () => {
    const queue = open()
    let ended = false
    const { seen, handler } = collect(async (d) => {
      await new Promise<void>((resolve) => d.signal.addEventListener('abort', () => resolve()))
      await sleep(20)
      ended = true
      return 'ack' as const
    })
    const consumer = queue.consume(handler, { maxBatches: 1 })
    await queue.send(batch('b1'))
    await until(() => seen.length === 1)
    await Promise.all([consumer.stop(), consumer.stop()])
    expect(ended).toBe(true)
    await queue.send(batch('b2'))
    await sleep(20)
    expect(seen).toHaveLength(1)
  })
})

describe('a stop', () => {
  it('waits for handlers, for drainMs at most, and takes nothing more', async () => {
    const queue = open()
    const { seen, handler } = collect(() => new Promise(() => {}))
    queue.consume(handler, { maxBatches: 1 })
    await queue.send(batch('b1'))
    await until(() => seen.length === 1)
    const started = performance.now()
    await Promise.all([queue.stop({ drainMs: 30 }), queue.stop({ drainMs: 30 })])
    expect(performance.now() - started).toBeLessThan(1_000)
    expect(await queue.send(batch('b2'))).toBe('unknown')
    expect((await queue.lag()).messages).toBe(1)
    expect(() => queue.consume(handler, { maxBatches: 1 })).toThrow(
      expect.objectContaining({ code: 'STOPPED' }),
    )
  })

  it('of a queue nobody used ends', async () => {
    const queue = open()
    await queue.start()
    await queue[Symbol.asyncDispose]()
  })
})

describe('bad input is refused', () => {
  it.each([
    ['maxMessages', NO_COUNT],
    ['retryMs', NO_COUNT],
    ['maxAttempts', NO_COUNT],
    ['onDead', [null, 5, 'x', {}]],
  ] as const)('option %s', (name, values) => {
    for (const value of values)
      expect(() => new MemoryQueue({ [name]: value } as never), String(value)).toThrow(
        expect.objectContaining({ code: 'BAD_OPTION' }),
      )
  })

  it('options, batches, handlers', async () => {
    for (const value of [null, 5, 'x', []])
      expect(() => new MemoryQueue(value as never)).toThrow(
        expect.objectContaining({ code: 'BAD_INPUT' }),
      )
    const queue = open()
    for (const value of [
      null,
      undefined,
      5,
      'x',
      [],
      {},
      { batchId: 'b1' },
      { batchId: 'b1', reservations: {} },
    ])
      await expect(queue.send(value as never)).rejects.toMatchObject({ code: 'BAD_INPUT' })
    for (const id of NO_ID)
      await expect(queue.send({ ...batch('b1'), batchId: id as never })).rejects.toMatchObject({
        code: 'BAD_INPUT',
      })
    for (const handler of [null, undefined, 5, {}])
      expect(() => queue.consume(handler as never, { maxBatches: 1 })).toThrow(
        expect.objectContaining({ code: 'BAD_INPUT' }),
      )
    for (const maxBatches of NO_COUNT)
      expect(() => queue.consume(async () => 'ack', { maxBatches: maxBatches as never })).toThrow(
        expect.objectContaining({ code: 'BAD_INPUT' }),
      )
    expect(() => queue.consume(async () => 'ack', null as never)).toThrow(
      expect.objectContaining({ code: 'BAD_INPUT' }),
    )
    await expect(queue.stop({ drainMs: -1 })).rejects.toMatchObject({ code: 'BAD_OPTION' })
    expect((await queue.lag()).messages).toBe(0)
  })
})
