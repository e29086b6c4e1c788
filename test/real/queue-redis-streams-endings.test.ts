import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../harness/net.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { spawnNode } from '../harness/spawn-node.js'
import { batchOf, collect, idsOf, signal, sleep, Topic } from '../suites/redis-streams.js'

let fresh: FreshRedis
let topic: Topic
beforeAll(async () => {
  fresh = await freshRedis()
})
afterAll(async () => {
  await fresh.destroy()
})
beforeEach(() => {
  topic = new Topic(fresh)
})
afterEach(async () => {
  await topic.close()
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
