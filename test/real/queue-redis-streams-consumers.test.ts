import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../harness/net.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { spawnNode } from '../harness/spawn-node.js'
import { TcpProxy } from '../harness/tcp-proxy.js'
import { batchOf, CLAIM_MS, collect, idsOf, signal, sleep, Topic } from '../suites/redis-streams.js'

let fresh: FreshRedis
let proxy: TcpProxy
let topic: Topic
beforeAll(async () => {
  fresh = await freshRedis()
  proxy = await TcpProxy.to(fresh.server.port)
})
afterAll(async () => {
  await proxy.close()
  await fresh.destroy()
})
beforeEach(() => {
  topic = new Topic(fresh)
})
afterEach(async () => {
  proxy.pass()
  await topic.close()
})

describe('a consumer', () => {
  const releases: (() => void)[] = []
  const pendingOf = async () =>
    Number(((await fresh.redis.xpending(topic.key, 'workers')) as unknown[])[0])

  it('acknowledges again when the answer was lost, and tells of a dead one once', async () => {
    const queue = await topic.open({ port: proxy.port })
    const [good, bad] = [batchOf(), batchOf()]
    await queue.send(good, { signal })
    await queue.send(bad, { signal })
    const { ids } = collect(
      queue,
      ({ batches }) => {
        proxy.swallowReply({ matching: /evalsha/i })
        return batches[0]?.batchId === bad.batchId ? 'dead' : 'ack'
      },
      1,
    )
    await until('one is set aside', () => topic.dead.length > 0)
    await sleep(2 * CLAIM_MS)
    expect(ids()).toEqual(idsOf([good, bad]))
    expect(topic.dead).toEqual([bad])
    expect(await fresh.redis.xlen(topic.deadKey)).toBe(1)
    expect(await fresh.redis.xlen(topic.key)).toBe(0)
  })

  it('that was cut off loses its messages to another, and what it says then changes nothing', async () => {
    const slow = await topic.open({ port: proxy.port })
    const other = await topic.open()
    const batches = [batchOf(), batchOf(), batchOf()]
    for (const batch of batches) await slow.send(batch, { signal })
    let release = () => {}
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    const first = slow.consume(
      async () => {
        await released
        return ['retry', 'dead', 'ack']
      },
      { maxBatches: 16 },
    )
    await until(
      'it has them',
      async () => (await topic.consumers()).length === 1 && (await pendingOf()) === 3,
    )
    proxy.hold()
    let done = () => {}
    const { ids, seen } = collect(
      other,
      () =>
        new Promise((resolve) => {
          done = () => resolve('ack')
        }),
    )
    await until('the other has them', () => ids().length === 3, 5_000)
    expect(seen[0]?.attempt).toBe(2)
    release()
    proxy.pass()
    await first.stop()
    await sleep(2 * CLAIM_MS)
    expect(ids().length).toBe(3)
    expect(topic.dead).toEqual([])
    expect(await fresh.redis.xlen(topic.key)).toBe(2) // acknowledged is acknowledged, by whomever
    done()
    await until('all are done', async () => (await fresh.redis.xlen(topic.key)) === 0)
    expect(topic.dead).toEqual([])
  })

  it('goes on after FLUSHALL, from the first message sent since', async () => {
    const queue = await topic.open()
    const { ids } = collect(queue)
    await queue.send(batchOf(), { signal })
    await until('the first arrives', () => ids().length === 1)
    await fresh.redis.flushall()
    await sleep(100) // polls of a stream that is not there
    await fresh.redis.flushall()
    const later = batchOf()
    await queue.send(later, { signal })
    await until('the later arrives', () => ids().includes(later.batchId))
    expect(topic.errors).toEqual([])
  })

  it('goes on at once when FLUSHALL came while it was handling', async () => {
    const queue = await topic.open({ claimAfterMs: 30_000 })
    const { ids } = collect(queue, async ({ attempt, batches }) => {
      if (batches[0]?.batchId === first.batchId) await fresh.redis.flushall()
      return attempt === 1 ? 'retry' : 'ack'
    })
    const first = batchOf()
    const later = batchOf()
    await queue.send(first, { signal })
    await until('the first arrives', () => ids().length === 1)
    await sleep(50)
    await queue.send(later, { signal })
    await until('the later is tried again', () => ids().length === 3, 2_000)
    expect(ids()).toEqual(idsOf([first, later, later]))
    expect(topic.errors).toEqual([])
  })

  it('goes on after a cut', async () => {
    const queue = await topic.open({ port: proxy.port })
    const { ids } = collect(queue)
    proxy.cut()
    await sleep(100)
    proxy.pass()
    const batch = batchOf()
    await fresh.redis.xadd(topic.key, '*', 'message', JSON.stringify(batch))
    await until('it arrives', () => ids().includes(batch.batchId))
  })

  it('goes on after a restart of a Redis that forgot everything', async () => {
    const queue = await topic.open()
    const { ids } = collect(queue)
    await fresh.server.restart()
    const batch = batchOf()
    await until('a send is accepted', async () => {
      return (await queue.send(batch, { signal })) === 'accepted'
    })
    await until('it arrives', () => ids().includes(batch.batchId))
  })

  it('drops what somebody deleted under it', async () => {
    const queue = await topic.open()
    await queue.send(batchOf(), { signal })
    const { ids } = collect(queue, () => 'retry')
    await until('it was handed over', () => ids().length > 0)
    await fresh.redis.xtrim(topic.key, 'MAXLEN', 0)
    await sleep(2 * CLAIM_MS)
    const soFar = ids().length
    await sleep(2 * CLAIM_MS)
    expect(ids().length).toBe(soFar)
    expect(await pendingOf()).toBe(0)
    expect(await queue.lag()).toEqual({ messages: 0, oldestAgeMs: null })
  })

  it('finds what is stale behind more than a page of what is not', async () => {
    const queue = await topic.open({ claimAfterMs: 1_500 })
    for (let i = 0; i < 250; i++) await queue.send(batchOf(), { signal })
    const doomed = await topic.open({ claimAfterMs: 1_500 })
    // 240 are held and renewed, the last ten by one that crashes.
    const holder = collect(
      queue,
      () => new Promise((resolve) => releases.push(() => resolve('ack'))),
      240,
    )
    await until('the first are held', () => holder.ids().length === 240)
    const lost = collect(doomed, () => new Promise(() => {}))
    await until('the last are held', () => lost.ids().length === 10)
    await topic.crash(doomed)
    const finder = collect(queue)
    await until('they come back', () => finder.ids().length >= 10, 10_000)
    expect(finder.ids().sort()).toEqual(lost.ids().sort())
    for (const release of releases) release()
  })
  it('is forgotten by the group once it holds nothing', async () => {
    const queue = await topic.open()
    const doomed = await topic.open()
    const { ids, consumer } = collect(queue)
    await queue.send(batchOf(), { signal })
    await until('it had one', () => ids().length === 1)
    expect((await topic.consumers()).length).toBe(1)
    await consumer.stop()
    expect(await topic.consumers()).toEqual([])

    await queue.send(batchOf(), { signal })
    const lost = collect(doomed, () => new Promise(() => {}))
    await until('it holds one', () => lost.ids().length === 1)
    await topic.crash(doomed)
    const next = collect(queue)
    await until('it comes back', () => next.ids().length === 1)
    expect((await topic.consumers()).length).toBe(1)
    await next.consumer.stop()
    expect(await topic.consumers()).toEqual([])
  })

  it('stopped with a retry pending leaves it to the next, pause and attempt included', async () => {
    const queue = await topic.open({ retryMs: 200 })
    const batch = batchOf()
    await queue.send(batch, { signal })
    const first = collect(queue, () => 'retry')
    await until('it was handed over', () => first.ids().length === 1)
    const at = performance.now()
    await first.consumer.stop()
    const next = collect(queue)
    await until('it comes again', () => next.ids().length === 1)
    expect(performance.now() - at).toBeGreaterThan(100)
    expect(next.seen[0]?.attempt).toBe(2)
  })
})

describe('what is set aside', () => {
  it('lies in the dead stream as it was, with the reason', async () => {
    const queue = await topic.open()
    const [dead, tried] = [batchOf(), batchOf()]
    await queue.send(dead, { signal })
    await queue.send(tried, { signal })
    await fresh.redis.xadd(topic.key, '*', 'message', 'no JSON')
    await fresh.redis.xadd(topic.key, '*', 'other', 'field')
    await fresh.redis.xadd(topic.key, '*', ...Array.from({ length: 20_000 }, (_, i) => `${i}`))
    collect(queue, ({ batches }) => (batches[0]?.batchId === dead.batchId ? 'dead' : 'retry'), 1)
    await until('all are set aside', () => topic.dead.length === 5)
    const rows = (await fresh.redis.xrange(topic.deadKey, '-', '+')).map(([, f]) =>
      Object.fromEntries(Array.from({ length: f.length / 2 }, (_, i) => [f[2 * i], f[2 * i + 1]])),
    )
    const why = (message: unknown) => rows.find((r) => r['message'] === message)
    expect(why(JSON.stringify(dead))).toMatchObject({
      why: 'set aside by the consumer',
      attempts: '1',
    })
    expect(why(JSON.stringify(tried))).toMatchObject({ why: 'tried 4 times', attempts: '4' })
    expect(why('no JSON')).toMatchObject({ why: expect.stringContaining('not a batch') })
    expect(rows.find((r) => r['other'])).toMatchObject({ other: 'field' })
    expect(rows.length).toBe(5)
    expect(await fresh.redis.xlen(topic.key)).toBe(0)
  })

  it('minds no callback that throws', async () => {
    const queue = await topic.open({
      onDead: () => {
        throw new Error('the pager is down')
      },
    })
    await queue.send(batchOf(), { signal })
    const { ids } = collect(queue, ({ attempt }) => (attempt === 1 ? 'dead' : 'ack'))
    await until('it is set aside', async () => (await fresh.redis.xlen(topic.deadKey)) === 1)
    await queue.send(batchOf(), { signal })
    await until('the next arrives', () => ids().length === 2)
  })
})

describe('a process', () => {
  it('V3: kill -9 of the consumer brings its messages to another', async () => {
    const queue = await topic.open()
    const batches = Array.from({ length: 4 }, () => batchOf())
    for (const batch of batches) await queue.send(batch, { signal })
    const child = await spawnNode(new URL('./fixtures/stream-consumer.ts', import.meta.url), {
      env: { REDIS_PORT: String(fresh.server.port), STREAM: topic.stream, HANG: '1' },
    })
    await child.line(/handed/)
    await child.kill('SIGKILL')
    const { ids } = collect(queue)
    await until('all arrive here', () => new Set(ids()).size === 4)
    expect(ids().sort()).toEqual(idsOf(batches).sort())
  })

  it.each([
    ['idle', {}],
    ['with a handler that hangs', { HANG: '1' }],
  ])('%s ends by itself once the queue has stopped', async (_, env) => {
    const queue = await topic.open()
    const child = await spawnNode(new URL('./fixtures/stream-consumer.ts', import.meta.url), {
      env: { REDIS_PORT: String(fresh.server.port), STREAM: topic.stream, ...env },
    })
    await child.line(/ready/)
    await queue.send(batchOf(), { signal })
    await child.line(/handed/)
    child.write('stop\n')
    await child.line(/stopped/)
    const ended = await Promise.race([child.exited, sleep(3_000).then(() => null)])
    expect(ended).toMatchObject({ code: 0 })
  })
})
