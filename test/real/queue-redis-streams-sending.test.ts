import { RedisStreamQueue } from 'flash-sale-kit/redis-streams'
import { Cluster } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../harness/net.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { startRedisCluster } from '../harness/services.js'
import { TcpProxy } from '../harness/tcp-proxy.js'
import { batchOf, collect, idsOf, signal, sleep, Topic } from '../suites/redis-streams.js'

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

describe('a send', () => {
  it('C14: is unknown when no answer comes in time, though the message is there', async () => {
    const queue = await topic.open({ port: proxy.port, sendTimeoutMs: 100 })
    const batch = batchOf()
    await queue.send(batchOf(), { signal }) // the script is known now
    proxy.delay(400)
    const begun = performance.now()
    expect(await queue.send(batch, { signal })).toBe('unknown')
    expect(performance.now() - begun).toBeLessThan(350)
    expect(await fresh.redis.xlen(topic.key)).toBe(2)
  })

  it('C14: is unknown at once when its signal aborts', async () => {
    const queue = await topic.open({ port: proxy.port, sendTimeoutMs: 10_000 })
    proxy.hold()
    const abort = new AbortController()
    const sending = queue.send(batchOf(), { signal: abort.signal })
    await sleep(20)
    const begun = performance.now()
    abort.abort()
    expect(await sending).toBe('unknown')
    expect(performance.now() - begun).toBeLessThan(1_000)
    proxy.pass()
    await until('it is there all the same', async () => (await fresh.redis.xlen(topic.key)) === 1)
  })

  it('C01: whose answer is lost is sent again by the client: a duplicate, never a loss', async () => {
    const queue = await topic.open({ port: proxy.port, sendTimeoutMs: 5_000 })
    const batch = batchOf()
    await queue.send(batch, { signal })
    proxy.swallowReply({ matching: /evalsha/i })
    expect(await queue.send(batch, { signal })).toBe('accepted')
    expect(await fresh.redis.xlen(topic.key)).toBe(3)
  })

  it.each([
    ['full memory', { maxmemory: '1' }, { maxmemory: '0' }],
    ['too few replicas', { 'min-replicas-to-write': '1' }, { 'min-replicas-to-write': '0' }],
  ])('is rejected by a Redis with %s, and then nothing is there', async (_, harm, heal) => {
    const queue = await topic.open()
    const set = async (config: object) => {
      for (const [word, value] of Object.entries(config))
        await fresh.redis.config('SET', word, value)
    }
    try {
      await set(harm)
      expect(await queue.send(batchOf(), { signal })).toBe('rejected')
    } finally {
      await set(heal)
    }
    expect(await fresh.redis.xlen(topic.key)).toBe(0)
    expect(topic.errors).toEqual([expect.objectContaining({ code: 'REDIS_REFUSED' })])
  })

  it('is rejected by a replica', async () => {
    const queue = await topic.open()
    await fresh.redis.replicaof('127.0.0.1', 1)
    try {
      expect(await queue.send(batchOf(), { signal })).toBe('rejected')
    } finally {
      await fresh.redis.replicaof('NO', 'ONE')
    }
  })

  it('is rejected by a full stream, and taken once there is room', async () => {
    const queue = await topic.open({ maxMessages: 2 })
    expect(await queue.send(batchOf(), { signal })).toBe('accepted')
    expect(await queue.send(batchOf(), { signal })).toBe('accepted')
    expect(await queue.send(batchOf(), { signal })).toBe('rejected')
    const { ids } = collect(queue)
    await until('they are handled', () => ids().length === 2)
    await until(
      'there is room',
      async () => (await queue.lag()) !== 'unknown' && (await fresh.redis.xlen(topic.key)) === 0,
    )
    expect(await queue.send(batchOf(), { signal })).toBe('accepted')
  })

  it('is rejected where the key is something else, which is left alone', async () => {
    const queue = await topic.open()
    await fresh.redis.set(topic.key, 'a string')
    expect(await queue.send(batchOf(), { signal })).toBe('rejected')
    expect(await queue.lag()).toBe('unknown')
    expect(await fresh.redis.get(topic.key)).toBe('a string')
    await fresh.redis.del(topic.key)
  })
})

it('two streams do not mix, and keep their keys in one slot each', async () => {
  const [one, two] = [await topic.open(), await topic.open({ stream: `${topic.stream}-b` })]
  const [a, b] = [batchOf(), batchOf()]
  await one.send(a, { signal })
  await two.send(b, { signal })
  const [seenOne, seenTwo] = [collect(one), collect(two)]
  await until('both arrive', () => seenOne.ids().length === 1 && seenTwo.ids().length === 1)
  expect([seenOne.ids(), seenTwo.ids()]).toEqual([idsOf([a]), idsOf([b])])
})

it('works on a Cluster', async () => {
  const server = await startRedisCluster({ config: { 'cluster-announce-ip': '127.0.0.1' } })
  const redis = new Cluster([{ host: server.host, port: server.port }])
  const dead: unknown[] = []
  const queue = new RedisStreamQueue({ redis, retryMs: 5, onDead: (m) => dead.push(m) })
  try {
    await queue.start()
    const batches = [batchOf(), batchOf()]
    for (const batch of batches) expect(await queue.send(batch, { signal })).toBe('accepted')
    const { seen } = collect(queue, ({ attempt }) => (attempt === 1 ? 'retry' : 'dead'))
    await until('they are set aside', () => dead.length === 2)
    expect(seen.map((d) => d.attempt)).toEqual([1, 2])
    expect(await queue.lag()).toEqual({ messages: 0, oldestAgeMs: null })
  } finally {
    await queue.stop()
    redis.disconnect()
    await server.stop()
  }
})

describe('bad options are refused', () => {
  const redis = { evalsha: async () => [], eval: async () => [] }
  it.each([
    ['redis', [undefined, null, {}, 'x']],
    ['stream', ['', 'a b', '{x}', 'a:b', 'x'.repeat(65), 5]],
    ['claimAfterMs', [0, 99, 1.5, '300', Number.NaN]],
    ['maxAttempts', [0, 1.5, 1_001]],
    ['retryMs', [0, -1, 60_001]],
    ['pollMs', [0, 10_001]],
    ['sendTimeoutMs', [0, 60_001]],
    ['maxMessages', [0, -5, '10']],
    ['onDead', [null, 5]],
    ['onError', [null, 5]],
  ] as const)('%s', (name, values) => {
    for (const value of values)
      expect(() => new RedisStreamQueue({ redis, [name]: value } as never), String(value)).toThrow(
        expect.objectContaining({ code: expect.stringMatching(/^BAD_(OPTION|INPUT)$/) }),
      )
  })

  it('a queue that was stopped does not start again', async () => {
    const queue = await topic.open()
    await queue.stop()
    await expect(queue.start()).rejects.toMatchObject({ code: 'STOPPED' })
  })
})
