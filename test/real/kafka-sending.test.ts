import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { freePort, until } from '../harness/net.js'
import type { KafkaServer } from '../harness/services/kafka.js'
import { startKafka } from '../harness/services.js'
import { TcpProxy } from '../harness/tcp-proxy.js'
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

it('is partitioned by SKU, ids byte-equal in key and text', async () => {
  const queue = await topic.open()
  const batch = batchOf(1, 'Ab"$-)~1849302938475629013')
  expect(await queue.send(batch, { signal })).toBe('accepted')
  expect((await topic.read(1)).values).toEqual([JSON.stringify(batch)])
})

it('C14: a frozen broker is unknown at 500 ms, and the message may be there all the same', async () => {
  const queue = await topic.open({ sendTimeoutMs: 500 })
  expect(await queue.send(batchOf(), { signal })).toBe('accepted')
  await server.kill('SIGSTOP')
  try {
    const begun = performance.now()
    expect(await queue.send(batchOf(), { signal })).toBe('unknown')
    const tookMs = performance.now() - begun
    expect(tookMs).toBeGreaterThan(450)
    expect(tookMs).toBeLessThan(900)
    const abort = new AbortController()
    const sending = queue.send(batchOf(), { signal: abort.signal })
    abort.abort()
    expect(await sending).toBe('unknown')
    const asked = performance.now()
    expect(await queue.lag()).toBe('unknown')
    expect(performance.now() - asked).toBeLessThan(5_000)
  } finally {
    await server.kill('SIGCONT')
  }
  await until('what was unknown is there', async () => (await topic.read(3)).values.length === 3)
  await until('sends are accepted again', async () => {
    return (await queue.send(batchOf(), { signal })) === 'accepted'
  })
})

it('C01 C14: one whose answer is lost is sent again, and takes none of those beside it along', async () => {
  const proxy = await TcpProxy.to(Number(server.brokers[0]?.split(':')[1]))
  try {
    const queue = await topic.open({}, proxy.port)
    expect(await queue.send(batchOf(), { signal })).toBe('accepted')
    const batches = Array.from({ length: 7 }, () => batchOf())
    proxy.swallowReply({ matching: new RegExp(batches[0]?.batchId ?? '') })
    const sent = await Promise.all(batches.map((batch) => queue.send(batch, { signal })))
    expect(new Set(sent)).toEqual(new Set(['accepted']))
    expect(proxy.counts.swallowed).toBe(1)
    const { values } = await topic.read(9) // with kafkajs' idempotent producer they are 8, and one of them is gone
    for (const batch of batches) expect(values).toContain(JSON.stringify(batch))
  } finally {
    await proxy.close()
  }
})

it('nothing accepted is lost when the broker is killed in mid-send, and consumers go on', async () => {
  const stray: unknown[] = []
  const note = (error: unknown) => void stray.push(error)
  process.on('unhandledRejection', note)
  const queue = await topic.open({ sendTimeoutMs: 500 })
  const { ids } = collect(queue)
  const accepted: string[] = []
  const outcomes = { accepted: 0, rejected: 0, unknown: 0 }
  let sending = true
  const senders = Array.from({ length: 8 }, async () => {
    while (sending) {
      const batch = batchOf()
      const sent = await queue.send(batch, { signal })
      outcomes[sent]++
      if (sent === 'accepted') accepted.push(batch.batchId)
    }
  })
  await sleep(500)
  await server.kill('SIGKILL')
  await sleep(700)
  await server.restart()
  const before = accepted.length
  await until('sends are accepted again', () => accepted.length > before + 50)
  sending = false
  await Promise.all(senders)
  console.log('sends around a kill -9', outcomes)
  await until(
    'all accepted arrive',
    () => {
      const arrived = new Set(ids())
      return accepted.every((id) => arrived.has(id))
    },
    90_000,
  )
  expect(outcomes.rejected).toBe(0)
  process.off('unhandledRejection', note)
  expect(stray).toEqual([])
})

it('start names the topic that is missing, and a broker that is not there, in time', async () => {
  const missing = { code: 'QUEUE_UNAVAILABLE', message: expect.stringContaining('no-such-topic') }
  await expect(topic.open({ topic: 'no-such-topic' })).rejects.toMatchObject(missing)
  await expect(topic.open({ deadTopic: 'no-such-topic' })).rejects.toMatchObject(missing)
  const nowhere = { ...server, brokers: [`127.0.0.1:${await freePort()}`] } as KafkaServer
  const lost = new Topic(nowhere)
  const begun = performance.now()
  await expect(lost.open({ startTimeoutMs: 500 })).rejects.toMatchObject({
    code: 'QUEUE_UNAVAILABLE',
  })
  expect(performance.now() - begun).toBeLessThan(3_000)
  await lost.close()
  const queue = await topic.open()
  await queue.start()
  await queue.stop()
  await expect(queue.start()).rejects.toMatchObject({ code: 'STOPPED' })
})

it('measures sends of one and of 64 reservations', { timeout: 60_000 }, async () => {
  const queue = await topic.open()
  const rate = async (users: number, messages: number, atOnce: number) => {
    const batch = batchOf(users)
    let left = messages
    const begun = performance.now()
    await Promise.all(
      Array.from({ length: atOnce }, async () => {
        while (left-- > 0) expect(await queue.send(batch, { signal })).toBe('accepted')
      }),
    )
    return Math.round(messages / ((performance.now() - begun) / 1_000))
  }
  await rate(1, 100, 16)
  const [one, whole] = [await rate(1, 1_000, 32), await rate(64, 1_000, 32)]
  console.log(
    `sends a second: ${one} of 1 reservation, ${whole} of 64 (${whole * 64} reservations)`,
  )
  expect(whole * 64).toBeGreaterThan(4 * one)
})
