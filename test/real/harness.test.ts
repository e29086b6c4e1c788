import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Cluster, Redis } from 'ioredis'
import { afterEach, describe, expect, it } from 'vitest'
import { DATABASES, freshDatabase, openDatabase, sharedServer } from '../harness/databases.js'
import { until } from '../harness/net.js'
import { runningProcesses } from '../harness/process.js'
import { freshRedis, mockRedis } from '../harness/redis.js'
import {
  startMariadb,
  startPostgres,
  startRedis,
  startRedisCluster,
  startRedisNodes,
  startRedisSentinel,
} from '../harness/services.js'
import { spawnNode } from '../harness/spawn-node.js'
import { TcpProxy } from '../harness/tcp-proxy.js'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

/** A process is there and not a zombie that nobody has collected yet. */
function exists(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

describe('Redis', () => {
  it('comes back on the same port after kill -9, with what its persistence kept', async () => {
    const { redis, server, destroy } = await freshRedis({
      config: { appendonly: 'yes', appendfsync: 'always' },
    })
    cleanUps.push(destroy)
    await redis.set('a', '1')
    const before = server.pid
    await server.kill('SIGKILL')
    expect(exists(before)).toBe(false)
    await server.restart()
    expect(server.pid).not.toBe(before)
    expect(await redis.get('a')).toBe('1')
  })

  it('gives every caller data of its own, real and mocked', async () => {
    const [a, b] = await Promise.all([freshRedis(), freshRedis()])
    cleanUps.push(a.destroy, b.destroy)
    await a.redis.set('k', 'a')
    expect(await b.redis.get('k')).toBeNull()

    const [c, d] = [mockRedis(), mockRedis()]
    await c.set('k', 'c')
    expect(await d.get('k')).toBeNull()
  })

  it('as a cluster of one node holds all slots and refuses keys of two slots', async () => {
    const server = await startRedisCluster()
    cleanUps.push(() => server.stop())
    const redis = new Redis({ host: server.host, port: server.port })
    cleanUps.push(() => redis.disconnect())
    await expect(redis.mset('a', '1', 'b', '2')).rejects.toThrow('CROSSSLOT')
    expect(await redis.mset('{t}a', '1', '{t}b', '2')).toBe('OK')
  })

  it('under Sentinel is what the replica knew, once the master is dead', async () => {
    const sentinel = await startRedisSentinel()
    cleanUps.push(() => sentinel.stop())
    const sentinels = sentinel.ports.map((port) => ({ host: '127.0.0.1', port }))
    const redis = new Redis({ name: sentinel.name, sentinels })
    redis.on('error', () => {})
    cleanUps.push(() => redis.disconnect())
    await redis.set('n', 'replicated')
    expect(await redis.wait(1, 10_000)).toBe(1)
    await sentinel.severReplication()
    await redis.set('n', 'not replicated')
    await sentinel.master.kill('SIGKILL')
    const over = async () => (await sentinel.masterPort()) === sentinel.replica.port
    await until('the replica has taken over', over)
    expect(await redis.get('n')).toBe('replicated')
  })

  it('as a cluster of several nodes goes on when the master of a key is dead', async () => {
    const nodes = await startRedisNodes()
    cleanUps.push(() => nodes.stop())
    const cluster = new Cluster(nodes.ports.map((port) => ({ host: '127.0.0.1', port })))
    cluster.on('error', () => {})
    cleanUps.push(() => cluster.disconnect())
    const master = await nodes.masterOf('{t}a')
    expect(await cluster.set('{t}a', '1')).toBe('OK')
    await master.kill('SIGKILL')
    const over = async () => (await nodes.masterOf('{t}a')).port !== master.port
    await until('its replica has taken over', over)
    expect(await cluster.set('{t}a', '2')).toBe('OK')
  })

  it('says what it printed when it cannot start', async () => {
    await expect(startRedis({ config: { 'maxmemory-policy': 'no-such-policy' } })).rejects.toThrow(
      /maxmemory-policy/,
    )
  })
})

describe.each(DATABASES)('a fresh database on %s', (kind) => {
  it('is empty, apart from others, and gone afterwards', async () => {
    const [one, two] = [await freshDatabase(kind), await freshDatabase(kind)]
    cleanUps.push(two.destroy)
    for (const { knex } of [one, two]) await knex.schema.createTable('t', (t) => t.integer('n'))
    await one.knex('t').insert({ n: 1 })
    expect(await one.knex('t').select('n')).toEqual([{ n: 1 }])
    expect(await two.knex('t').select('n')).toEqual([])

    const again = openDatabase(one.address)
    expect(await again('t').select('n')).toEqual([{ n: 1 }])
    await again.destroy()
    await one.destroy()
    if (kind !== 'sqlite') {
      const gone = openDatabase(one.address)
      await expect(gone.raw('SELECT 1')).rejects.toThrow()
      await gone.destroy()
    }
  })
})

describe.each([['mariadb', startMariadb] as const, ['postgres', startPostgres] as const])(
  'a %s of its own',
  (kind, startServer) => {
    it('keeps commits over kill -9 and restart', async () => {
      const server = await startServer()
      cleanUps.push(() => server.stop())
      const { knex, destroy } = await freshDatabase(kind, { server })
      cleanUps.push(destroy)
      await knex.schema.createTable('t', (t) => t.string('word', 10))
      await knex('t').insert({ word: '秒杀🔥' })
      await server.kill('SIGKILL')
      await expect(knex('t').select()).rejects.toThrow()
      await server.restart()
      expect(await knex('t').select('word')).toEqual([{ word: '秒杀🔥' }])
    })
  },
)

describe('TcpProxy', () => {
  async function redisBehindProxy() {
    const { redis: direct, server, client, destroy } = await freshRedis()
    const proxy = await TcpProxy.to(server.port)
    cleanUps.push(destroy, () => proxy.close())
    const redis = client({
      port: proxy.port,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      retryStrategy: () => null,
      lazyConnect: true,
    })
    await redis.connect()
    return { proxy, redis, direct, client }
  }

  it('passes and counts', async () => {
    const { proxy, redis, direct } = await redisBehindProxy()
    const { bytesToServer } = proxy.counts
    await redis.set('k', 'x'.repeat(100_000))
    expect((await direct.get('k'))?.length).toBe(100_000)
    expect(proxy.counts.bytesToServer - bytesToServer).toBeGreaterThan(100_000)
    expect(proxy.counts.connections).toBe(1)
    redis.disconnect()
    await until('the connection is gone on both sides', () => proxy.open === 0)
  })

  it('delays replies, and keeps their order when it stops delaying', async () => {
    const { proxy, redis } = await redisBehindProxy()
    proxy.delay(200)
    const started = performance.now()
    const tenAtOnce = Array.from({ length: 10 }, () => redis.incr('n'))
    expect(await Promise.all(tenAtOnce)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    expect(performance.now() - started).toBeGreaterThanOrEqual(195)
    expect(performance.now() - started).toBeLessThan(1_000) // delayed together, not one after the other

    const next = redis.incr('n')
    proxy.pass()
    expect(await Promise.all([next, redis.incr('n')])).toEqual([11, 12])
  })

  it('swallows one reply: the work is done, the client does not learn of it', async () => {
    const { proxy, redis, direct, client } = await redisBehindProxy()
    proxy.swallowReply({ matching: /incr/i })
    expect(await redis.get('n')).toBeNull() // does not match
    await expect(redis.incr('n')).rejects.toThrow('Connection is closed')
    expect(await direct.get('n')).toBe('1')
    expect(proxy.counts.swallowed).toBe(1)
    expect(await client({ port: proxy.port }).incr('n')).toBe(2)
  })

  it('leaves no socket open that it resets in the moment of its polite end', async () => {
    const { proxy, redis, client } = await redisBehindProxy()
    await redis.quit()
    await until('that one is gone', () => proxy.open === 0)
    const sockets = () =>
      process.getActiveResourcesInfo().filter((r) => r === 'TCPSocketWrap').length
    const before = sockets()
    for (let i = 0; i < 10; i++) {
      const socket = connect(proxy.port, proxy.host).on('error', () => {})
      await once(socket, 'connect')
      await until('it is linked', () => proxy.open === 1)
      proxy.hold()
      socket.end()
      await sleep(20)
      proxy.pass()
      for (let turn = 0; turn < 10; turn++) await null // its end is handed on, and nothing else happens
      proxy.cut()
      proxy.pass()
      socket.destroy()
    }
    await until('none is left', () => sockets() <= before, 2_000)
    expect(await client({ port: proxy.port }).ping()).toBe('PONG')
  })

  it('swallows every reply when told so', async () => {
    const { proxy, redis, direct, client } = await redisBehindProxy()
    proxy.swallowReply({ matching: /incr/i, always: true })
    await expect(redis.incr('n')).rejects.toThrow()
    const second = client({ port: proxy.port, maxRetriesPerRequest: 0 })
    await expect(second.incr('n')).rejects.toThrow()
    expect(await direct.get('n')).toBe('2')
    proxy.pass()
  })

  it('swallows such a share of the replies as it is told', async () => {
    const { proxy, redis } = await redisBehindProxy()
    proxy.swallowReply({ matching: /incr/i, always: true, share: 0 })
    expect(await redis.incr('n')).toBe(1)
    proxy.swallowReply({ matching: /incr/i, always: true, share: 1 })
    await expect(redis.incr('n')).rejects.toThrow('Connection is closed')
    proxy.pass()
  })

  it.each(['mariadb', 'postgres'] as const)(
    'swallows the reply to a COMMIT on %s',
    async (kind) => {
      const { knex, address, destroy } = await freshDatabase(kind)
      const proxy = await TcpProxy.to((await sharedServer(kind)).port)
      const behind = openDatabase(address, { port: proxy.port })
      cleanUps.push(
        destroy,
        () => proxy.close(),
        () => behind.destroy(),
      )
      await knex.schema.createTable('t', (t) => t.integer('n'))
      proxy.swallowReply({ matching: /commit/i })
      const transaction = behind.transaction(async (trx) => {
        await trx('t').insert({ n: 1 })
      })
      await expect(transaction).rejects.toThrow()
      expect(await knex('t').select('n')).toEqual([{ n: 1 }])
    },
  )

  it('holds both directions until it passes again', async () => {
    const { proxy, redis, direct } = await redisBehindProxy()
    proxy.hold()
    let answered = false
    const reply = redis.incr('n').finally(() => {
      answered = true
    })
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(answered).toBe(false)
    expect(await direct.get('n')).toBeNull()
    proxy.pass()
    expect(await reply).toBe(1)
  })

  it('cuts all connections and refuses new ones until it passes again', async () => {
    const { proxy, redis, client } = await redisBehindProxy()
    proxy.hold()
    const pending = redis.incr('n')
    proxy.cut()
    await expect(pending).rejects.toThrow()
    expect(proxy.open).toBe(0)
    const refused = client({ port: proxy.port, maxRetriesPerRequest: 0, retryStrategy: () => null })
    await expect(refused.ping()).rejects.toThrow()
    proxy.pass()
    expect(await client({ port: proxy.port }).ping()).toBe('PONG')
  })

  it('sends new connections elsewhere, and existing ones once they are cut', async () => {
    const { proxy, client } = await redisBehindProxy()
    const other = await freshRedis()
    cleanUps.push(other.destroy)
    await other.redis.set('who', 'other')
    const reconnecting = client({ port: proxy.port, retryStrategy: () => 20 })
    expect(await reconnecting.get('who')).toBeNull()
    proxy.retarget(other.server.port)
    expect(await reconnecting.get('who')).toBeNull()
    proxy.cut()
    proxy.pass()
    expect(await reconnecting.get('who')).toBe('other')
  })

  it('resets the client when nobody listens behind it', async () => {
    const { proxy, client } = await redisBehindProxy()
    proxy.retarget(1)
    const nobody = client({ port: proxy.port, maxRetriesPerRequest: 0, retryStrategy: () => null })
    await expect(nobody.ping()).rejects.toThrow()
  })
})

describe('processes', () => {
  it('runs a TypeScript file elsewhere, talks with it and kills it', async () => {
    const child = await spawnNode(new URL('../harness/fixtures/echo.ts', import.meta.url), {
      args: ['hello'],
      env: { WHO: 'me' },
    })
    expect(await child.line(/hello/)).toBe('hello me')
    child.write('ping\n')
    expect(await child.line(/^got/)).toBe('got ping')
    await child.kill('SIGKILL')
    expect(await child.exited).toEqual({ code: null, signal: 'SIGKILL' })
    await expect(child.line(/never/)).rejects.toThrow('ended before')
    expect(runningProcesses()).toEqual([])
  })

  it('leaves no server behind when the process that started it is killed', async () => {
    const fixture = new URL('../harness/fixtures/start-redis-and-wait.ts', import.meta.url)
    const child = await spawnNode(fixture)
    const pid = Number((await child.line(/^redis \d+$/)).split(' ')[1])
    expect(exists(pid)).toBe(true)
    await child.kill('SIGKILL')
    await until('redis is gone too', () => !exists(pid), 2_000)
  })
})
