import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../harness/net.js'
import type { KafkaServer } from '../harness/services/kafka.js'
import { startKafka } from '../harness/services.js'
import { spawnNode } from '../harness/spawn-node.js'
import { batchOf, collect, signal, sleep, Topic } from '../suites/kafka.js'

let server: KafkaServer
let topic: Topic
beforeAll(async () => {
  server = await startKafka({ config: { 'group.min.session.timeout.ms': '500' } })
})
afterAll(() => server.stop())
beforeEach(async () => {
  topic = await Topic.on(server)
})
afterEach(() => topic.close())

const idsOf = (batches: readonly { batchId: string }[]) => batches.map((b) => b.batchId)
const send = async (queue: Awaited<ReturnType<Topic['open']>>, count: number) => {
  const batches = Array.from({ length: count }, () => batchOf())
  const sent = await Promise.all(batches.map((batch) => queue.send(batch, { signal })))
  expect(new Set(sent)).toEqual(new Set(['accepted']))
  return batches
}

describe('C15: a rebalance', () => {
  it('in the middle of 500 messages: each is handled once, whoever gets the partition', async () => {
    const [one, two] = [await topic.open(), await topic.open()]
    const batches = await send(one, 500)
    let running = 0
    let most = 0
    const slowly = async () => {
      most = Math.max(most, ++running)
      await sleep(30)
      running--
      return 'ack' as const
    }
    const first = collect(one, slowly, 10)
    await until('the first is at work', () => first.ids().length >= 30)
    const second = collect(two, slowly, 10)
    await until('all are handled', () => first.ids().length + second.ids().length >= 500)
    await first.consumer.stop()
    await second.consumer.stop()
    expect([...first.ids(), ...second.ids()].sort()).toEqual(idsOf(batches).sort())
    expect(most).toBe(1)
    expect(await topic.committed()).toEqual(['500'])
  })

  it('waits for the handler that runs; what it finished is committed, and it starts nothing more', async () => {
    const [one, two] = [await topic.open(), await topic.open()]
    const batches = await send(one, 10)
    let release = () => {}
    const gate = new Promise<void>((resolve) => {
      release = resolve
    })
    const first = collect(one, () => gate.then(() => 'ack' as const), 5)
    await until('the first has some', () => first.ids().length > 0)
    const second = collect(two)
    await sleep(2_000)
    expect(second.ids()).toEqual([])
    release()
    await until('all are handled', () => first.ids().length + second.ids().length >= 10)
    await sleep(500)
    expect([...first.ids(), ...second.ids()].sort()).toEqual(idsOf(batches).sort())
  })

  it('that a handler outlasts takes the partition: the old owner commits nothing and starts nothing', async () => {
    const one = await topic.open({ rebalanceTimeoutMs: 1_000 })
    const two = await topic.open({ rebalanceTimeoutMs: 1_000 })
    await send(one, 10)
    let release = () => {}
    const gate = new Promise<void>((resolve) => {
      release = resolve
    })
    const first = collect(one, () => gate.then(() => 'ack' as const), 5)
    await until('the first has five', () => first.ids().length === 5)
    let open = () => {}
    const holding = new Promise<void>((resolve) => {
      open = resolve
    })
    const second = collect(two, () => holding.then(() => 'ack' as const), 3)
    await until('the second has the partition', () => second.ids().length === 3)
    expect(second.seen[0]?.attempt).toBe(2) // it was handed out before: metadata of the commit
    const stopped = first.consumer.stop() // or it would join again, and want the partition back
    release()
    await stopped
    expect(first.ids().length).toBe(5)
    expect(await topic.committed()).toEqual(['0'])
    open()
    await until('the rest is handled', async () => (await topic.committed())[0] === '10')
  })
})

it('C15: a partition added in mid-sale is consumed, and counted', async () => {
  const refresh = { refreshMs: 300 }
  const queue = await topic.open(refresh)
  const { ids } = collect(queue)
  const first = await send(queue, 3)
  await until('the first arrive', () => ids().length === 3)
  const admin = topic.kafka.admin()
  await admin.connect()
  await admin.createPartitions({ topicPartitions: [{ topic: topic.topic, count: 3 }] })
  await admin.disconnect()
  const later = await topic.open(refresh) // its producer knows the new partitions
  const batches = Array.from({ length: 12 }, (_, i) => batchOf(1, `sku${i}`))
  for (const batch of batches) expect(await later.send(batch, { signal })).toBe('accepted')
  await until('they arrive', () => ids().length === 15)
  await sleep(300)
  expect(ids().sort()).toEqual(idsOf([...first, ...batches]).sort())
  expect((await topic.committed()).length).toBe(3)
  await until('nothing is left', async () => {
    const lag = await queue.lag()
    return lag !== 'unknown' && lag.messages === 0
  })
})

describe('what waits for a retry', () => {
  it('holds back the offset, not the messages behind it nor other partitions', async () => {
    const queue = await topic.open({ retryMs: 1_000 })
    const [head, ...behind] = [...(await send(queue, 1)), ...(await send(queue, 5))]
    const { ids } = collect(
      queue,
      ({ batches, attempt }) =>
        attempt === 1 && batches[0]?.batchId === head?.batchId ? 'retry' : 'ack',
      1,
    )
    await until('those behind are handled', () => ids().length === 6)
    await sleep(200)
    expect(await topic.committed()).toEqual(['0'])
    await until('it comes again', () => ids().length === 7)
    await until('all is committed', async () => (await topic.committed())[0] === '6')
    expect(ids().at(-1)).toBe(head?.batchId)
    expect([...new Set(ids())].sort()).toEqual(idsOf([...(head ? [head] : []), ...behind]).sort())
  })

  it('keeps its attempts over a restart', async () => {
    const queue = await topic.open({ retryMs: 60_000 })
    await send(queue, 2)
    const first = collect(queue, () => 'retry')
    await until('they were tried', () => first.ids().length === 2)
    await first.consumer.stop()
    const next = collect(await topic.open())
    await until('they come again', () => next.ids().length === 2)
    expect(next.seen[0]?.attempt).toBe(2)
  })
})

it('what is dead goes to the dead topic with the reason; C11: also a bare 19-digit number', async () => {
  const deadTopic = `${topic.topic}.dead`
  await server.createTopic(deadTopic)
  const queue = await topic.open({ deadTopic })
  const [bad] = await send(queue, 1)
  const java = JSON.stringify(batchOf()).replace('"userId":"u0"', '"userId":1849302938475629013')
  await topic.inject(java)
  const { ids } = collect(queue, () => 'dead')
  await until('both are set aside', () => topic.dead.length === 2)
  expect(ids()).toEqual(idsOf(bad ? [bad] : []))
  expect(topic.dead).toContain(java)
  expect(topic.dead).toContainEqual(bad)
  const { values, headers } = await topic.read(2, deadTopic)
  expect(values.sort()).toEqual([JSON.stringify(bad), java].sort())
  expect(headers.some((why) => why?.includes('userId'))).toBe(true)
  await until('they are committed', async () => (await topic.committed())[0] === '2')
})

describe('a process', () => {
  it.each([
    ['idle', {}],
    ['with a handler that hangs', { HANG: '1' }],
  ])('%s ends by itself once the queue has stopped', async (_, env) => {
    const queue = await topic.open()
    const child = await spawnNode(new URL('./fixtures/kafka-consumer.ts', import.meta.url), {
      env: { BROKERS: server.brokers.join(','), TOPIC: topic.topic, ...env },
    })
    await child.line(/ready/)
    await queue.send(batchOf(), { signal })
    await child.line(/handed/)
    child.write('stop\n')
    await child.line(/stopped/)
    const ended = await Promise.race([child.exited, sleep(5_000).then(() => null)])
    expect(ended).toMatchObject({ code: 0 })
  })
})
