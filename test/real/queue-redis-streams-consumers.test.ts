import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { queueSettle } from '../../src/redis/scripts.generated.js'
import { until } from '../harness/net.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
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
    await sleep(CLAIM_MS) // its claim was renewed more than once
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

  it('waits longer before each attempt, but never longer than a claim lasts', async () => {
    const queue = await topic.open({ retryMs: 100, maxAttempts: 5 })
    await queue.send(batchOf(), { signal })
    const at: number[] = []
    collect(queue, () => {
      at.push(performance.now())
      return 'retry'
    })
    await until('it is set aside', () => topic.dead.length === 1)
    const pauses = at.slice(1).map((t, i) => t - (at[i] ?? 0))
    for (const [i, least] of [100, 200, CLAIM_MS, CLAIM_MS].entries()) {
      expect(pauses[i]).toBeGreaterThanOrEqual(least - 5)
      expect(pauses[i]).toBeLessThan(least + 200)
    }
  })

  it('settles again when it heard nothing', async () => {
    let deaf = 2
    const redis = fresh.client()
    const queue = await topic.open({
      redis: {
        eval: (...call) => redis.eval(...call),
        async evalsha(sha, ...call) {
          const reply = await redis.evalsha(sha, ...call)
          if (sha === queueSettle.sha && deaf-- > 0) throw new Error('Connection is closed.')
          return reply
        },
      },
      claimAfterMs: 30_000,
    })
    const batches = [batchOf(), batchOf()]
    await queue.send(batchOf(), { signal })
    collect(queue, () => 'dead')
    await until('one is set aside', () => topic.dead.length === 1, 2_000)
    for (const batch of batches) await queue.send(batch, { signal })
    await until('the others are', () => topic.dead.length === 3, 2_000)
    expect(topic.errors.length).toBe(2)
    expect(await fresh.redis.xlen(topic.deadKey)).toBe(3)
  })

  it('that was paused while it was fetching gives back what came, as if it had never had it', async () => {
    const queue = await topic.open({ port: proxy.port })
    const other = await topic.open()
    const { ids, consumer } = collect(queue)
    await sleep(100)
    proxy.delay(150)
    await sleep(100)
    const batch = batchOf()
    await other.send(batch, { signal })
    await until('it was fetched', async () => (await pendingOf()) === 1)
    await consumer.pause()
    expect(ids()).toEqual([])
    const next = collect(other)
    await until('another has it', () => next.ids().length === 1)
    expect(next.seen[0]?.attempt).toBe(1)
  })

  it('that hangs when its queue has stopped holds its messages no longer', async () => {
    const queue = await topic.open()
    const other = await topic.open()
    await queue.send(batchOf(), { signal })
    const hung = collect(queue, () => new Promise(() => {}))
    await until('it has it', () => hung.ids().length === 1)
    await queue.stop({ drainMs: 20 })
    const next = collect(other)
    await until('another has it', () => next.ids().length === 1, 3_000)
  })
})
