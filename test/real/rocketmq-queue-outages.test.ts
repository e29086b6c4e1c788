import type { Batch, Sent } from 'flash-sale-kit'
import { RocketmqQueue } from 'flash-sale-kit/rocketmq'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { freePort, LOOPBACK, until } from '../harness/net.js'
import type { RunningProcess } from '../harness/process.js'
import type { RocketmqServer } from '../harness/services/rocketmq.js'
import { startRocketmq } from '../harness/services.js'
import { spawnNode } from '../harness/spawn-node.js'
import { batchOf, PROXY, signal, Topic } from '../suites/rocketmq.js'

let server: RocketmqServer
let topic: Topic
const cleanUps: (() => unknown)[] = []
beforeAll(async () => {
  server = await startRocketmq({ proxy: PROXY })
})
afterAll(() => server.stop())
afterEach(async () => {
  for (const act of cleanUps.splice(0)) await act()
  await topic.close()
})

const idsOf = (batches: readonly Batch[]) => batches.map((b) => b.batchId)
const spawnWorker = (env: Record<string, string>) =>
  spawnNode(new URL('./fixtures/rocketmq-worker.ts', import.meta.url), {
    env: { ENDPOINTS: server.endpoints, TOPIC: topic.topic, ...env },
  })

/** Told to stop, with `drainMs` of a second. */
async function endsByItself(worker: RunningProcess): Promise<void> {
  worker.write('\n')
  const [, ms] = /(\d+) ms/.exec(await worker.line(/^stopped/)) ?? []
  expect(Number(ms)).toBeLessThan(2_000)
  await until('the worker has ended', () => !worker.isAlive(), 10_000)
  expect(await worker.exited, worker.output()).toEqual({ code: 0, signal: null })
}

const code = (error: unknown) => (error as { code?: unknown }).code

describe('RocketmqQueue.start', () => {
  const refusal = async (o: Parameters<Topic['make']>[0]) => {
    const begun = performance.now()
    const error = (await topic
      .make(o)
      .start()
      .catch((e: Error) => e)) as Error
    return { error, tookMs: performance.now() - begun }
  }

  it('names what is missing or of the wrong type, within its limit, and can be called again', async () => {
    topic = await Topic.on(server)
    await server.createTopic('unordered', { type: 'NORMAL' })
    await server.createGroup('ordered', { fifo: true })
    const limit = { startTimeoutMs: 8_000 }

    const noTopic = await refusal({ ...limit, topic: 'nowhere' })
    expect(code(noTopic.error)).toBe('QUEUE_UNAVAILABLE')
    expect(noTopic.error.message).toContain(`${server.endpoints}: topic nowhere does not exist`)
    const noGroup = await refusal({ ...limit, group: 'nobody' })
    expect(code(noGroup.error)).toBe('QUEUE_UNAVAILABLE')
    expect(noGroup.error.message).toContain('consumer group nobody does not exist')
    for (const { tookMs } of [noTopic, noGroup]) expect(tookMs).toBeLessThan(8_500)

    const unordered = await refusal({ ...limit, topic: 'unordered' })
    expect(code(unordered.error)).toBe('BAD_OPTION')
    expect(unordered.error.message).toContain('takes no FIFO messages')
    const ordered = await refusal({ ...limit, group: 'ordered' })
    expect(code(ordered.error)).toBe('BAD_OPTION')
    expect(ordered.error.message).toContain('ordered delivers in order')

    const endpoints = `${LOOPBACK}:${await freePort()}`
    const nobody = await refusal({ endpoints, startTimeoutMs: 1_000 })
    expect(code(nobody.error)).toBe('QUEUE_UNAVAILABLE')
    expect(nobody.error.message).toContain(endpoints)
    expect(nobody.tookMs).toBeLessThan(3_000)

    const late = topic.make({ ...limit, group: 'late' })
    await expect(late.start()).rejects.toThrow('late')
    await server.createGroup('late')
    await late.start()
    await late.start()
    expect(await late.send(batchOf(), { signal })).toBe('accepted')
  })

  it('leaves nothing that keeps a process alive, started or refused', async () => {
    topic = await Topic.on(server)
    const worker = await spawnWorker({ GROUP: topic.group })
    await worker.line(/^handed 1/, 40_000)
    await endsByItself(worker)

    const refused = await spawnWorker({ GROUP: 'nobody', START: 'fails' })
    await refused.line(/^start: .*nobody/, 40_000)
    await until('the refused one has ended', () => !refused.isAlive(), 8_000)
    expect((await refused.exited).code).toBe(0)
  })
})

describe('RocketmqQueue.send', () => {
  it('carries messages of 64 and of 256 reservations, under ids and names of any length', async () => {
    topic = await Topic.on(server)
    const queue = await topic.open()
    const batches = [batchOf(64), batchOf(256, 's'.repeat(64))]
    for (const batch of batches) expect(await queue.send(batch, { signal })).toBe('accepted')
    const seen: Batch[] = []
    queue.consume(
      async (d) => {
        seen.push(...d.batches)
        return 'ack'
      },
      { maxBatches: 100 },
    )
    await until('both have come', () => seen.length === 2)
    const inOrder = (list: readonly Batch[]) =>
      [...list].sort((a, b) => a.reservations.length - b.reservations.length)
    expect(inOrder(seen)).toEqual(batches)
  })

  it('a queue without a group only sends, one that was not started does not', async () => {
    topic = await Topic.on(server)
    const sender = new RocketmqQueue({ endpoints: server.endpoints, topic: topic.topic })
    cleanUps.push(() => sender.stop())
    expect(await sender.send(batchOf(), { signal })).toBe('rejected')
    await sender.start()
    expect(await sender.send(batchOf(), { signal })).toBe('accepted')
    expect(() => sender.consume(async () => 'ack', { maxBatches: 1 })).toThrow('group')
    expect(await sender.lag()).toBe('unknown')
  })

  it('Q6: tells what waits, from the metrics of the broker', async () => {
    topic = await Topic.on(server)
    const queue = await topic.open({ metricsUrl: server.metricsUrl })
    const unheard = topic.make({ metricsUrl: `http://${LOOPBACK}:${await freePort()}/metrics` })
    expect(await unheard.lag()).toBe('unknown')
    const consumer = queue.consume(async () => 'ack', { maxBatches: 4 })
    await queue.send(batchOf(), { signal })
    const isAt = (messages: number) => async () => {
      const lag = await queue.lag()
      return lag !== 'unknown' && lag.messages === messages
    }
    await until('the first is done', isAt(0), 60_000)
    expect(await queue.lag()).toEqual({ messages: 0, oldestAgeMs: null })
    await consumer.pause()
    for (let i = 0; i < 3; i++) await queue.send(batchOf(), { signal })
    // The ask that waited when the consumer paused has taken one or more into this process.
    await until(
      'some wait',
      async () => {
        const lag = await queue.lag()
        return lag !== 'unknown' && lag.messages > 0 && (lag.oldestAgeMs ?? -1) >= 0
      },
      60_000,
    )
    consumer.resume()
    await until('none waits', isAt(0), 60_000)
  })
})

describe('RocketmqQueue, when the broker', () => {
  it('freezes: a send is unknown at its deadline, and may have arrived', async () => {
    topic = await Topic.on(server)
    const queue = await topic.open({ sendTimeoutMs: 500 })
    expect(await queue.send(batchOf(), { signal })).not.toBe('rejected')
    await server.kill('SIGSTOP')
    const begun = performance.now()
    const sent = await queue.send(batchOf(), { signal })
    const tookMs = performance.now() - begun
    await server.kill('SIGCONT')
    expect(sent).toBe('unknown')
    expect(tookMs).toBeGreaterThan(450)
    expect(tookMs).toBeLessThan(1_500)
    await until(
      'it takes messages again',
      async () => (await queue.send(batchOf(), { signal })) === 'accepted',
      60_000,
    )
  })

  it.each(['SIGSTOP', 'SIGKILL'] as const)(
    'gets %s: stop still ends, and the process too',
    async (how) => {
      topic = await Topic.on(server)
      const worker = await spawnWorker({ GROUP: topic.group })
      await worker.line(/^handed 1/, 40_000)
      await server.kill(how)
      try {
        await new Promise((resolve) => setTimeout(resolve, 1_500)) // for the client to notice, and to try again
        await endsByItself(worker)
      } finally {
        await (how === 'SIGSTOP' ? server.kill('SIGCONT') : server.restart())
      }
    },
  )

  it('C14: dies and returns: no send lies, nothing accepted is lost, consumers go on', async () => {
    topic = await Topic.on(server)
    const queue = await topic.open({ sendTimeoutMs: 3_000 })
    const seen = new Set<string>()
    queue.consume(
      async ({ batches }) => {
        for (const id of idsOf(batches)) seen.add(id)
        return 'ack'
      },
      { maxBatches: 8 },
    )
    const outcomes = new Map<string, Sent>()
    let going = true
    const send = async () => {
      while (going) {
        const batch = batchOf(8)
        outcomes.set(batch.batchId, await queue.send(batch, { signal }))
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
    }
    const count = (what: Sent) => [...outcomes.values()].filter((o) => o === what).length
    const sending = Promise.all(Array.from({ length: 8 }, send))
    await until('some were accepted', () => count('accepted') >= 50, 60_000)
    await server.kill('SIGKILL')
    const before = count('accepted')
    await until('some were not', () => outcomes.size > before + 20, 60_000)
    await server.restart()
    await until('sends work again', () => count('accepted') > before + 20, 90_000)
    going = false
    await sending
    const accepted = [...outcomes].filter(([, o]) => o === 'accepted').map(([id]) => id)
    await until(
      'all that was accepted has come',
      () => accepted.every((id) => seen.has(id)),
      90_000,
    )
    const rejected = [...outcomes].filter(([, o]) => o === 'rejected').map(([id]) => id)
    expect(rejected.filter((id) => seen.has(id))).toEqual([])
    console.log(
      `accepted ${accepted.length}, rejected ${rejected.length}, unknown ${count('unknown')}`,
    )
  })
})
