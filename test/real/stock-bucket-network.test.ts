import type { RedisOptions } from 'ioredis'
import { afterEach, describe, expect, it } from 'vitest'
import { deduct, move } from '../../src/redis/scripts.generated.js'
import type { StockBucketOptions } from '../../src/stock/options.js'
import { until } from '../harness/net.js'
import { freshRedis } from '../harness/redis.js'
import { startRedis } from '../harness/services.js'
import { TcpProxy } from '../harness/tcp-proxy.js'
import {
  activityOf,
  KEYS,
  numbersOf,
  REF,
  reservationOf,
  sku,
  World,
} from '../suites/stock-bucket/world.js'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

/** A sale seen directly by `world`, and a client whose every byte goes through the proxy. */
async function behindProxy(o: RedisOptions = {}, S = 100) {
  const { redis, server, client, destroy } = await freshRedis()
  const world = new World(redis, 'real')
  const proxy = await TcpProxy.to(server.port)
  const far = client({ port: proxy.port, retryStrategy: () => 20, ...o })
  await far.ping()
  cleanUps.push(
    destroy,
    () => proxy.close(),
    () => world.close(),
  )
  await world.sale({ skus: [sku(S)] })
  // Loaded beforehand, so that the one EVALSHA that loses its reply is the one that counts.
  for (const { lua } of [deduct, move]) await redis.script('LOAD', lua)
  const bucket = (p: Partial<StockBucketOptions> = {}) =>
    world.bucket({ redis: far, timeoutMs: 600, ...p })
  return { world, proxy, far, server, client, bucket }
}

const WITHIN_MS = 600 + 400

async function timed<T>(work: Promise<T>): Promise<T> {
  const started = performance.now()
  try {
    return await work
  } finally {
    expect(performance.now() - started).toBeLessThan(WITHIN_MS)
  }
}

describe('C01 the reply is lost on the way', () => {
  it.each([
    ['as ioredis does by default', {}],
    ['autoResendUnfulfilledCommands false', { autoResendUnfulfilledCommands: false }],
    ['maxRetriesPerRequest 0', { maxRetriesPerRequest: 0 }],
    ['maxRetriesPerRequest 1', { maxRetriesPerRequest: 1 }],
  ])('each number takes effect once, and every call settles: %s', async (_, options) => {
    const { world, proxy, bucket } = await behindProxy(options)
    const stock = bucket()
    const request = world.request('u1', { orderNo: 'r1' })

    proxy.swallowReply({ matching: /evalsha/i })
    const a = await timed(stock.deduct(request))
    expect(proxy.counts.swallowed).toBe(1)
    expect(['reserved', 'unknown']).toContain(a.status)
    expect(await world.bucket().numbers(REF)).toMatchObject({ available: 99, waiting: 1 })
    await world.sound()

    const c = await timed(stock.deduct(request))
    expect(c).toMatchObject({ status: 'reserved', reservation: { orderNo: 'r1' } })
    expect((await world.bucket().numbers(REF)).available).toBe(99)
    expect((await stock.reservation(REF, 'u1')) as object).toMatchObject({ state: 'held' })
    // Whoever learned of it delivered it, once; else it is owed, and the relay will.
    const sent = world.batches.flatMap((b) => b.reservations)
    expect(sent.map((r) => r.orderNo)).toEqual(a.status === 'reserved' ? ['r1'] : [])
    expect((await world.bucket().numbers(REF)).owed).toBe(1)

    const release = {
      to: 'released',
      reservation: reservationOf({ orderNo: 'r1' }),
      reason: 'x',
    } as const
    proxy.swallowReply({ matching: /evalsha/i })
    const b = await timed(stock.move([release]).catch((error) => error.code))
    expect([['already'], 'OUTCOME_UNKNOWN']).toContainEqual(b)
    expect(await timed(stock.move([release]))).toEqual(['already'])
    expect((await world.bucket().numbers(REF)).available).toBe(100)
    await world.sound()
  })

  it('a whole batch sent twice tells every winner "reserved", and is delivered once', async () => {
    const { world, proxy, bucket } = await behindProxy({}, 20)
    const stock = bucket()
    proxy.swallowReply({ matching: /evalsha/i })
    const crowd = Array.from({ length: 30 }, (_, i) => stock.deduct(world.request(`u${i}`)))
    const answers = await timed(Promise.all(crowd))
    expect(proxy.counts.swallowed).toBe(1)
    const won = answers.filter((a) => a.status === 'reserved')
    expect(won).toHaveLength(20)
    expect(won.every((a) => a.status === 'reserved' && !a.replayed)).toBe(true)
    expect(answers.filter((a) => a.status === 'sold-out')).toHaveLength(10)
    expect(world.batches.flatMap((b) => b.reservations)).toHaveLength(20)
    await world.sound()
  })

  it('every reply lost: unknown at the deadline, and the unit is found again by its number', async () => {
    const { world, proxy, bucket } = await behindProxy({ maxRetriesPerRequest: 1 })
    const stock = bucket({ timeoutMs: 300 })
    proxy.swallowReply({ matching: /evalsha/i, always: true })
    const answer = await timed(stock.deduct(world.request('u1', { orderNo: 'r1' })))
    expect(answer).toEqual({ status: 'unknown', orderNo: 'r1' })
    proxy.pass()
    const again = await stock.deduct(world.request('u1', { orderNo: 'r1' }))
    expect(again).toMatchObject({ status: 'reserved', replayed: true })
    expect((await world.bucket().numbers(REF)).available).toBe(99)
    await world.sound()
  })
})

describe('a Redis that does not answer', () => {
  it('is unknown at the deadline, and the next batch goes', async () => {
    const { world, proxy, bucket } = await behindProxy()
    const stock = bucket({ timeoutMs: 200 })
    proxy.hold()
    const first = stock.deduct(world.request('u1', { orderNo: 'r1' }))
    await new Promise((resolve) => setTimeout(resolve, 20))
    const second = stock.deduct(world.request('u2'))
    expect(await timed(first)).toEqual({ status: 'unknown', orderNo: 'r1' })
    proxy.pass()
    expect(await second).toMatchObject({ status: 'reserved' })
    // What was held arrives late and counts: that is what "unknown" means.
    await until('both are booked', async () => (await world.bucket().numbers(REF)).frozen === 2)
    await world.sound()
  })

  it('is OUTCOME_UNKNOWN for all that writes, and repeating it is safe', async () => {
    const { world, proxy, bucket } = await behindProxy()
    const stock = bucket({ timeoutMs: 150 })
    const held = await stock.deduct(world.request('u1', { orderNo: 'r1' }))
    if (held.status !== 'reserved') throw new Error(held.status)
    const { reservation } = held
    const acts: (() => Promise<unknown>)[] = [
      () => stock.move([{ to: 'confirmed', reservation }]),
      () => stock.topUp(REF, 5, 'op1'),
      () => stock.control('a1', 'stopped'),
      () => stock.revokeTokens('a1', 5),
      () => stock.delivered({ schema: 1, batchId: 'b', ...REF, reservations: [] }, 'accepted'),
    ]
    proxy.hold()
    for (const act of acts)
      await expect(timed(act()), String(act)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    proxy.pass()
    for (const act of acts) await act()
    expect(await world.bucket().numbers(REF)).toMatchObject({ total: 105, state: 'stopped' })
    await world.sound({ units: { s1: 105 } })
  })

  it('is frozen or killed: every call settles in time, and none is told a lie', async () => {
    const { world, server, client } = await behindProxy({}, 1_000)
    const stock = world.bucket({ redis: client({ maxRetriesPerRequest: 1 }), timeoutMs: 300 })
    await stock.deduct(world.request('u0'))
    await server.kill('SIGSTOP')
    const frozen = Array.from({ length: 20 }, (_, i) => stock.deduct(world.request(`f${i}`)))
    const told = await timed(Promise.all(frozen))
    expect(new Set(told.map((a) => a.status))).toEqual(new Set(['unknown']))
    await server.kill('SIGKILL')
    const killed = await timed(stock.deduct(world.request('k')))
    expect(killed.status).toBe('unknown')
    await server.restart()
    await until('it hears that all is gone', async () => {
      return (await stock.deduct(world.request('n'))).status === 'not-warmed'
    })
  })

  it('connections are killed again and again under load: the books balance, nobody is lost', async () => {
    const { world, bucket } = await behindProxy({}, 500)
    const stock = bucket({ maxBatch: 16, timeoutMs: 2_000 })
    const answers: Promise<string>[] = []
    for (let round = 0; round < 10; round++) {
      for (let i = 0; i < 30; i++)
        answers.push(stock.deduct(world.request(`u${round}-${i}`)).then((a) => a.status))
      await new Promise((resolve) => setTimeout(resolve, 5))
      await world.redis.client('KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    }
    const told = await Promise.all(answers)
    const reserved = told.filter((s) => s === 'reserved').length
    expect(told.filter((s) => s !== 'reserved' && s !== 'unknown')).toEqual([])
    const { frozen } = await world.bucket().numbers(REF)
    expect(frozen).toBeGreaterThanOrEqual(reserved)
    expect(frozen).toBeLessThanOrEqual(300)
    await world.sound()
  })
})

describe('a Redis that says no', () => {
  async function sale(config: Record<string, string> = {}) {
    const { redis, server, destroy } = await freshRedis({ config })
    const world = new World(redis, 'real')
    cleanUps.push(destroy, () => world.close())
    const stock = await world.sale({ skus: [sku(100)] })
    const held = await stock.deduct(world.request('u1', { orderNo: 'r1' }))
    if (held.status !== 'reserved') throw new Error(held.status)
    const { reservation } = held
    const writes = {
      deduct: () => stock.deduct(world.request('u2')),
      confirm: () => stock.move([{ to: 'confirmed', reservation }]),
      release: () => stock.move([{ to: 'released', reservation, reason: 'x' }]),
      adopt: () => stock.move([{ to: 'paid', reservation: reservationOf({ userId: 'u3' }) }]),
      topUp: () => stock.topUp(REF, 1, 'op1'),
      control: () => stock.control('a1', 'stopped'),
      revokeTokens: () => stock.revokeTokens('a1', 7),
      accepted: () => stock.delivered(world.batches[0] as never, 'accepted'),
      takeOwed: () => stock.takeOwed('a1', { leaseMs: 1_000, limit: 5 }),
      deductUnowed: () => world.bucket({ deliver: 'nothing-owed' }).deduct(world.request('u2')),
    }
    await redis.zadd(KEYS.owed, '1', world.batches[0]?.batchId as string)
    return { redis, server, world, stock, writes }
  }

  async function refuses(world: World, writes: Record<string, () => Promise<unknown>>) {
    await world.unchanged(async () => {
      for (const [name, write] of Object.entries(writes))
        await expect(write(), name).rejects.toMatchObject({ code: 'REDIS_REFUSED' })
    })
  }

  it('OOM with noeviction: refused, nothing half-written, and it goes on once there is room', async () => {
    const { redis, world, stock, writes } = await sale()
    await redis.config('SET', 'maxmemory', '1')
    await refuses(world, writes)
    // Warm-up is all or nothing too.
    const other = activityOf({ activityId: 'a2' })
    const warmed = await stock.warmUp(other, numbersOf(other)).then(
      ({ status }) => status,
      (error) => error.code,
    )
    expect(await redis.keys('*a2*')).toHaveLength(warmed === 'warmed' ? 6 : 0)
    await redis.config('SET', 'maxmemory', '0')
    expect(await writes.deduct()).toMatchObject({ status: 'reserved' })
    expect(await writes.confirm()).toEqual(['done'])
    await world.sound()
  })

  it('a replica (READONLY): refused, reads still answer', async () => {
    const { redis, world, stock, writes } = await sale()
    const master = await startRedis({ config: { 'repl-diskless-sync-delay': '0' } })
    cleanUps.push(() => master.stop())
    await redis.config('SET', 'replica-serve-stale-data', 'yes')
    const before = await world.contents()
    await redis.replicaof(master.host, master.port)
    await until('it follows', async () =>
      /master_link_status:up/.test(await redis.info('replication')),
    )
    // It took over an empty master: nothing is sold from a replica, whatever it holds.
    expect(await stock.deduct(world.request('u2'))).toEqual({ status: 'not-warmed' })
    await redis.replicaof('NO', 'ONE')
    await world.restore(before)
    await redis.replicaof(master.host, 1) // nobody there: it keeps its data and is read-only
    await refuses(world, writes)
    expect((await stock.numbers(REF)).available).toBe(99)
    await redis.replicaof('NO', 'ONE')
    expect(await writes.deduct()).toMatchObject({ status: 'reserved' })
  })

  it('too few replicas (NOREPLICAS): refused, nothing written', async () => {
    const { redis, world, writes } = await sale()
    await redis.config('SET', 'min-replicas-to-write', '1')
    await refuses(world, writes)
    await redis.config('SET', 'min-replicas-to-write', '0')
    expect(await writes.deduct()).toMatchObject({ status: 'reserved' })
    await world.sound()
  })

  it('busy with somebody’s endless script (BUSY): refused', async () => {
    const { redis, world, stock, server } = await sale({ 'lua-time-limit': '50' })
    const endless = redis.duplicate()
    cleanUps.push(() => endless.disconnect())
    const loop = endless.eval('while true do end', 0).catch((error) => error.message)
    await until('the server is busy', () =>
      redis.ping().then(
        () => false,
        (error) => /BUSY/.test(error.message),
      ),
    )
    await expect(stock.deduct(world.request('u2'))).rejects.toMatchObject({ code: 'REDIS_REFUSED' })
    await redis.script('KILL')
    expect(await loop).toMatch(/killed/i)
    expect(await stock.deduct(world.request('u2'))).toMatchObject({ status: 'reserved' })
    expect(server.isAlive()).toBe(true)
    await world.sound()
  })

  it('it has lost its scripts (NOSCRIPT): they are sent again, nobody notices', async () => {
    const { redis, world, writes } = await sale()
    await redis.script('FLUSH')
    expect(await writes.deduct()).toMatchObject({ status: 'reserved' })
    expect(await writes.confirm()).toEqual(['done'])
    await world.sound()
  })

  it('a wrong password (NOAUTH): refused', async () => {
    const { redis, world, server } = await sale()
    await redis.config('SET', 'requirepass', 'secret')
    const stranger = redis.duplicate({ lazyConnect: true })
    stranger.on('error', () => {})
    cleanUps.push(() => stranger.disconnect())
    const stock = world.bucket({ redis: stranger })
    await expect(stock.deduct(world.request('u2'))).rejects.toMatchObject({ code: 'REDIS_REFUSED' })
    await redis.config('SET', 'requirepass', '')
    expect(server.isAlive()).toBe(true)
  })
})

it('S10 a Redis restarted from an older snapshot is noticed, and sells nothing', async () => {
  const { redis, server, destroy } = await freshRedis({ config: { save: '' } })
  const world = new World(redis, 'real')
  cleanUps.push(destroy, () => world.close())
  const stock = await world.sale({ skus: [sku(3)] })
  await stock.deduct(world.request('u1'))
  await redis.save()
  await stock.deduct(world.request('u2'))
  await server.kill('SIGKILL')
  await server.restart()
  expect(await stock.deduct(world.request('u3'))).toEqual({ status: 'rewound' })
  expect((await stock.numbers(REF)).available).toBe(2)
  await world.sound()
})

it('S2 many processes on one stock sell S exactly', async () => {
  const { redis, client, destroy } = await freshRedis()
  const world = new World(redis, 'real')
  cleanUps.push(destroy, () => world.close())
  await world.sale({ skus: [sku(500)] })
  const shops = Array.from({ length: 4 }, () => world.bucket({ redis: client() }))
  const answers = await Promise.all(
    Array.from({ length: 3_000 }, (_, i) => {
      // Every buyer comes twice, to two processes.
      const stock = shops[i % 4] as (typeof shops)[number]
      return stock.deduct(world.request(`u${Math.floor(i / 2)}`))
    }),
  )
  expect(answers.filter((a) => a.status === 'reserved')).toHaveLength(500)
  expect(world.batches.flatMap((b) => b.reservations)).toHaveLength(500)
  await world.sound()
})

it('S2 the window is half-open to the millisecond, by the clock of Redis', async () => {
  const { redis, destroy } = await freshRedis()
  const world = new World(redis, 'real')
  cleanUps.push(destroy, () => world.close())
  const { opensAt, endsAt } = activityOf()
  await world.sale({ opensAt, endsAt })
  const stock = world.bucket({
    redis: {
      // The very script, at a time of our choosing.
      evalsha: (_sha, keys, ...rest) => {
        const clock = /local function now_ms\(\)[\s\S]*?\nend\n/
        expect(deduct.lua).toMatch(clock)
        const lua = deduct.lua.replace(clock, `local function now_ms() return ${now} end\n`)
        return redis.eval(lua, keys, ...rest)
      },
      eval: () => Promise.reject(new Error('not used')),
    },
  })
  let now = 0
  const at = async (ms: number) => {
    now = ms
    return (await stock.deduct(world.request(`u${ms}`))).status
  }
  expect(await at(opensAt - 1)).toBe('not-open')
  expect(await at(opensAt)).toBe('reserved')
  expect(await at(endsAt - 1)).toBe('reserved')
  expect(await at(endsAt)).toBe('ended')
})
