import { expect, it } from 'vitest'
import type { RedisLike } from '../../src/core/ports.js'
import type { Delivered } from '../../src/core/types.js'
import type { StockBucketOptions } from '../../src/stock/options.js'
import { StockBucket } from '../../src/stock/stock-bucket.js'
import { mockRedis } from '../harness/redis.js'
import { REF, sku, World } from '../suites/stock-bucket/world.js'

const request = (userId: string, o: object = {}) => ({ ...REF, userId, version: 'v1', ...o })
const tick = () => new Promise((resolve) => setImmediate(resolve))

/** A Redis whose answers wait until `answer` lets them go; each reserves all its candidates. */
function slowRedis() {
  const scripts: { users: string[]; answer: () => void; fail: (error: Error) => void }[] = []
  const evalsha: RedisLike['evalsha'] = (_sha, _keys, ...rest) =>
    new Promise((resolve, reject) => {
      const count = Number(rest[13])
      const users = Array.from({ length: count }, (_, i) => rest[14 + 3 * i] as string)
      const codes = Array.from({ length: count }, () => '1').join(' ')
      scripts.push({
        users,
        answer: () => resolve([1, '1790000000000', String(scripts.length), codes, '']),
        fail: reject,
      })
    })
  return { scripts, redis: { evalsha, eval: () => Promise.reject(new Error('not used')) } }
}

function bucket(o: Partial<StockBucketOptions> = {}) {
  const { scripts, redis } = slowRedis()
  const stock = new StockBucket({ redis, deliver: 'nothing-owed', ...o })
  return { scripts, stock }
}

it('what arrives while a batch is in flight forms the next one', async () => {
  const { scripts, stock } = bucket()
  const first = stock.deduct(request('u1'))
  await tick()
  const later = ['u2', 'u3', 'u4'].map((u) => stock.deduct(request(u)))
  await tick()
  expect(scripts.map((s) => s.users)).toEqual([['u1']])
  scripts[0]?.answer()
  await first
  await tick()
  expect(scripts.map((s) => s.users)).toEqual([['u1'], ['u2', 'u3', 'u4']])
  scripts[1]?.answer()
  expect((await Promise.all(later)).map((a) => a.status)).toEqual([
    'reserved',
    'reserved',
    'reserved',
  ])
})

it('SKUs and versions have lanes of their own', async () => {
  const { scripts, stock } = bucket()
  const calls = [
    stock.deduct(request('u1')),
    stock.deduct(request('u1', { skuId: 's2' })),
    stock.deduct(request('u1', { version: 'v2' })),
    stock.deduct(request('u1', { activityId: 'a2' })),
  ]
  await tick()
  expect(scripts).toHaveLength(4)
  for (const script of scripts) script.answer()
  await Promise.all(calls)
})

it('F11 beyond the waiting room: busy at once, without I/O', async () => {
  const { scripts, stock } = bucket({ maxWaiting: 2 })
  const calls = [stock.deduct(request('u1'))]
  await tick()
  calls.push(stock.deduct(request('u2')), stock.deduct(request('u3')))
  expect(await stock.deduct(request('u4'))).toEqual({
    status: 'busy',
    cause: 'waiting-room',
    retryAfterMs: 1000,
  })
  // An equal call needs no place.
  calls.push(stock.deduct(request('u3')))
  expect(scripts).toHaveLength(1)
  scripts[0]?.answer()
  await calls[0]
  await tick()
  scripts[1]?.answer()
  expect(new Set((await Promise.all(calls)).map((a) => a.status))).toEqual(new Set(['reserved']))
})

it('who waits longer than maxWaitMs hears busy, and is never sent', async () => {
  const { scripts, stock } = bucket({ maxWaitMs: 30 })
  const first = stock.deduct(request('u1'))
  await tick()
  const started = performance.now()
  expect(await stock.deduct(request('u2'))).toMatchObject({
    status: 'busy',
    cause: 'waiting-room',
  })
  expect(performance.now() - started).toBeGreaterThanOrEqual(25)
  scripts[0]?.answer()
  expect(await first).toMatchObject({ status: 'reserved' })
  await tick()
  expect(scripts).toHaveLength(1)
})

it('a script past its deadline is unknown to all its callers, and the next batch goes', async () => {
  const { scripts, stock } = bucket({ timeoutMs: 30 })
  const first = ['u1', 'u2'].map((u) => stock.deduct(request(u, { orderNo: `o-${u}` })))
  await tick()
  const next = stock.deduct(request('u3'))
  expect(await Promise.all(first)).toEqual([
    { status: 'unknown', orderNo: 'o-u1' },
    { status: 'unknown', orderNo: 'o-u2' },
  ])
  await tick()
  scripts[1]?.answer()
  expect(await next).toMatchObject({ status: 'reserved' })
})

it.each([
  ['READONLY You can’t write against a read only replica.', 'REDIS_REFUSED'],
  ['OOM command not allowed when used memory > ‘maxmemory’.', 'REDIS_REFUSED'],
  ['LOADING Redis is loading the dataset in memory', 'REDIS_REFUSED'],
  ['CLUSTERDOWN The cluster is down', 'REDIS_REFUSED'],
  ['MASTERDOWN Link with MASTER is down', 'REDIS_REFUSED'],
  ['TRYAGAIN Multiple keys request during rehashing of slot', 'REDIS_REFUSED'],
  ['MOVED 3999 127.0.0.1:6381', 'REDIS_REFUSED'],
  ['ERR Error running script: @user_script:9: -READONLY no', 'REDIS_REFUSED'],
  ['WRONGTYPE Operation against a key holding the wrong kind of value', 'CORRUPT'],
  ['ERR user_script:3: attempt to index a nil value', 'unknown'],
  ['Connection is closed.', 'unknown'],
  ['connect ECONNREFUSED 127.0.0.1:6379', 'unknown'],
  ['Reached the max retries per request limit (which is 0).', 'unknown'],
  ['Command timed out', 'unknown'],
])('an error %j is %s to every caller', async (message, told) => {
  const { scripts, stock } = bucket()
  const calls = ['u1', 'u2'].map((u) => stock.deduct(request(u)).catch((error) => error))
  await tick()
  scripts[0]?.fail(new Error(message))
  for (const answer of await Promise.all(calls)) expect(answer.code ?? answer.status).toBe(told)
  const after = stock.deduct(request('u3'))
  await tick()
  scripts[1]?.answer()
  expect(await after).toMatchObject({ status: 'reserved' })
})

it.each([[null], ['OK'], [[]], [['1']], [[1, '1', '1', '1 1 1', '']], [[7]]])(
  'a reply that the script never gives is CORRUPT: %j',
  async (reply) => {
    const evalsha = async () => reply
    const stock = new StockBucket({ redis: { evalsha, eval: evalsha }, deliver: 'nothing-owed' })
    await expect(stock.deduct(request('u1'))).rejects.toMatchObject({ code: 'CORRUPT' })
  },
)

it('an abort before the call is sent ends it; afterwards it takes its course', async () => {
  const { scripts, stock } = bucket()
  const gone = AbortSignal.abort(new Error('left'))
  await expect(stock.deduct(request('u0', { signal: gone }))).rejects.toThrow('left')
  const [a, b] = [new AbortController(), new AbortController()]
  const sent = stock.deduct(request('u1', { signal: a.signal }))
  await tick()
  const waiting = stock.deduct(request('u2', { signal: b.signal }))
  a.abort(new Error('too late'))
  b.abort(new Error('left'))
  await expect(waiting).rejects.toThrow('left')
  scripts[0]?.answer()
  expect(await sent).toMatchObject({ status: 'reserved' })
  await tick()
  expect(scripts).toHaveLength(1)
})

it('an abort of one of several equal calls leaves the others', async () => {
  const { scripts, stock } = bucket()
  const controller = new AbortController()
  const calls = [
    stock.deduct(request('u1', { signal: controller.signal })).catch((error) => error.message),
    stock.deduct(request('u1')),
  ]
  controller.abort(new Error('left'))
  await tick()
  scripts[0]?.answer()
  expect(await Promise.all(calls)).toMatchObject(['left', { status: 'reserved' }])
})

it('deliveries are bounded over all SKUs, and what waits for a place may leave or expire', async () => {
  const { scripts, redis } = slowRedis()
  const sends: ((outcome: Delivered) => void)[] = []
  const stock = new StockBucket({
    redis,
    deliver: () => new Promise((resolve) => sends.push(resolve)),
    maxDeliveries: 2,
    maxWaitMs: 60,
    deliverTimeoutMs: 60_000,
  })
  const answers = ['s1', 's2', 's3', 's4'].map((skuId) => stock.deduct(request('u1', { skuId })))
  await tick()
  expect(scripts).toHaveLength(2) // the other lanes have no place to send from
  for (const script of scripts) script.answer()
  await tick()
  expect(sends).toHaveLength(2)
  const controller = new AbortController()
  const leaves = stock.deduct(request('u2', { skuId: 's3', signal: controller.signal }))
  controller.abort(new Error('left'))
  await expect(leaves).rejects.toThrow('left')
  for (const answer of answers.slice(2))
    expect(await answer).toMatchObject({ status: 'busy', cause: 'waiting-room' })
  sends[0]?.('unknown')
  sends[1]?.('unknown')
  expect(await Promise.all(answers.slice(0, 2))).toMatchObject([
    { status: 'reserved' },
    { status: 'reserved' },
  ])
  const next = stock.deduct(request('u9', { skuId: 's3' }))
  while (scripts.length < 3) await tick()
  scripts[2]?.answer()
  while (sends.length < 3) await tick()
  sends[2]?.('unknown')
  expect(await next).toMatchObject({ status: 'reserved' })
})

it('stop refuses what is new, lets what was begun end, and is one stop for all', async () => {
  const { scripts, redis } = slowRedis()
  let send = (_: Delivered) => {}
  const stock = new StockBucket({
    redis,
    deliver: () =>
      new Promise((resolve) => {
        send = resolve
      }),
    deliverTimeoutMs: 60_000,
  })
  const begun = stock.deduct(request('u1'))
  await tick()
  const waiting = stock.deduct(request('u2'))
  let stopped = false
  const stops = [stock.stop(), stock.stop({ drainMs: 1 }), stock[Symbol.asyncDispose]()]
  void Promise.all(stops).then(() => {
    stopped = true
  })
  await expect(stock.deduct(request('u3'))).rejects.toMatchObject({ code: 'STOPPED' })
  for (const script of [0, 1]) {
    scripts[script]?.answer()
    await tick()
    expect(stopped).toBe(false)
    send('unknown')
    await tick()
  }
  expect(await Promise.all([begun, waiting])).toMatchObject([
    { status: 'reserved' },
    { status: 'reserved' },
  ])
  await Promise.all(stops)
})

it('stop gives up after drainMs', async () => {
  const { scripts, stock } = bucket()
  const never = stock.deduct(request('u1'))
  await tick()
  const started = performance.now()
  await stock.stop({ drainMs: 30 })
  expect(performance.now() - started).toBeLessThan(500)
  scripts[0]?.answer()
  await never
})

it('reports what no caller hears of, once for each', async () => {
  const heard: unknown[] = []
  const world = new World(mockRedis(), 'mock')
  const stock = await world.sale(
    { skus: [sku(5)] },
    {
      deliver: async ({ reservations: [r] }) => {
        if (r?.userId === 'u1') throw new Error('broker away')
        return (r?.userId === 'u2' ? undefined : 'unknown') as Delivered
      },
      onError: (error) => heard.push(error),
    },
  )
  for (const u of ['u1', 'u2', 'u3']) await stock.deduct(world.request(u))
  expect(heard).toMatchObject([{ message: 'broker away' }, { code: 'BAD_INPUT' }])
  await world.close()
})
