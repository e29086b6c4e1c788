import { Cluster, Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SkuRef } from '../../src/core/types.js'
import { StockBucket } from '../../src/stock/stock-bucket.js'
import type { Server } from '../harness/services/server.js'
import { startRedis, startRedisCluster } from '../harness/services.js'
import { activityOf, sku } from '../suites/stock-bucket/world.js'

/** C06's table and more: an id that is taken must work everywhere, another must be refused everywhere. */
const IDS = [
  'a1',
  '1',
  'A',
  '-',
  '~',
  '"',
  '\\',
  "'",
  '%s',
  '$&',
  '[x]',
  '/',
  '?',
  '!',
  '<script>',
  'x'.repeat(64),
  '0',
  'constructor',
  '__proto__',
  '}x',
  '{}',
  '{a}{b}',
  'a}b',
  '{',
  '1:2',
  '2:3',
  '*',
  'a#1',
  'a|b',
  'a\nb',
  ' ',
  '',
  'x'.repeat(65),
  'x'.repeat(10_000),
  '秒杀🔥',
  'é',
]

const servers: Server[] = []
const clients: { disconnect(): void }[] = []
let standalone: Server
let cluster: Server
beforeAll(async () => {
  standalone = await startRedis()
  cluster = await startRedisCluster({ config: { 'cluster-announce-ip': '127.0.0.1' } })
  servers.push(standalone, cluster)
})
afterAll(async () => {
  for (const client of clients) client.disconnect()
  for (const server of servers) await server.stop()
})

const open = {
  standalone: (keyPrefix: string) =>
    new Redis({ port: standalone.port, host: standalone.host, keyPrefix }),
  'a cluster': (keyPrefix: string) =>
    new Cluster([{ host: cluster.host, port: cluster.port }], { keyPrefix }),
  // Without ioredis' idea of slots: only the server decides what may go together.
  'a cluster, plain client': (keyPrefix: string) =>
    new Redis({ port: cluster.port, host: cluster.host, keyPrefix }),
}

/** One whole life of a reservation under these ids; `refused` when the ids are. */
async function life(stock: StockBucket, ref: SkuRef, userId: string, tokenId: string) {
  const activity = { ...activityOf({ skus: [sku(5, ref.skuId)] }), activityId: ref.activityId }
  const token = { tokenId, issue: 1 }
  try {
    expect(await stock.warmUp(activity, [{ ...ref, total: 5, available: 5, live: 0 }])).toEqual({
      status: 'warmed',
    })
    await stock.control(ref.activityId, 'open')
    const taken = await stock.deduct({ ...ref, userId, version: 'v1', token })
    if (taken.status !== 'reserved') throw new Error(taken.status)
    const { reservation } = taken
    expect(await stock.deduct({ ...ref, userId, version: 'v1', token })).toMatchObject({
      replayed: true,
    })
    expect(await stock.move([{ to: 'confirmed', reservation }])).toEqual(['done'])
    expect(await stock.takeOwed(ref.activityId, { leaseMs: 10, limit: 5 })).toEqual([])
    await stock.topUp(ref, 1, 'op1')
    expect(await stock.reservation(ref, userId)).toMatchObject({ userId, state: 'confirmed' })
    expect((await stock.scan(ref, '0')).rows).toHaveLength(1)
    expect(await stock.numbers(ref)).toMatchObject({ total: 6, available: 5, frozen: 1 })
    return 'works'
  } catch (error) {
    if ((error as { code?: string }).code === 'BAD_INPUT') return 'refused'
    throw error
  }
}

describe.each(['', 'app:', '{p}'])('C06 with keyPrefix %j', (keyPrefix) => {
  it.each(Object.entries(open))(
    'ids on %s either work or are refused, never CROSSSLOT',
    async (_, connect) => {
      const redis = connect(keyPrefix)
      clients.push(redis)
      await (redis as Redis).flushall()
      const stock = new StockBucket({ redis, deliver: async () => 'accepted' })
      const asActivity = new Map<string, string>()
      for (const [i, id] of IDS.entries()) {
        asActivity.set(id, await life(stock, { activityId: id, skuId: 's' }, `u${i}`, 't1'))
        const roles = [
          await life(stock, { activityId: `sku-${i}`, skuId: id }, `u${i}`, 't1'),
          await life(stock, { activityId: `token-${i}`, skuId: 's' }, `u${i}`, id),
        ]
        expect(roles, JSON.stringify(id.slice(0, 20))).toEqual([
          asActivity.get(id),
          asActivity.get(id),
        ])
        // A buyer's id is no part of a key, so it may have braces and colons.
        const buyer = await life(stock, { activityId: `buyer-${i}`, skuId: 's' }, id, 't1')
        expect(buyer, JSON.stringify(id.slice(0, 20))).toBe(
          /^[!-{}~]{1,64}$/.test(id) ? 'works' : 'refused',
        )
      }
      const working = IDS.filter((id) => asActivity.get(id) === 'works')
      expect(working).toEqual(IDS.slice(0, IDS.indexOf('}x')))
    },
  )

  it('no two tuples of activity and SKU share a key', async () => {
    const redis = open.standalone(keyPrefix)
    clients.push(redis)
    await redis.flushall()
    const stock = new StockBucket({ redis, deliver: 'nothing-owed' })
    const pairs = [
      ['1', '23'],
      ['12', '3'],
      ['a', 'a'],
      ['sale', 'stock'],
      ['stock', 'sale'],
      ['A', 'a'],
    ] as const
    for (const [activityId, skuId] of pairs) await life(stock, { activityId, skuId }, 'u1', 't1')
    const keys = await redis.keys('*')
    expect(keys).toHaveLength(pairs.length * 6)
    expect(keys.every((key) => key.startsWith(`${keyPrefix}seckill:`))).toBe(true)
  })
})

it('C06 on a cluster a stored token is looked for in the slot of its sale', async () => {
  const redis = open['a cluster']('')
  clients.push(redis)
  const stock = new StockBucket({ redis, deliver: 'nothing-owed' })
  const ref = { activityId: 'stored', skuId: 's1' }
  const activity = activityOf({ ...ref, tokens: 'required' })
  await stock.warmUp(activity, [{ ...ref, total: 10, available: 10, live: 0 }])
  await stock.control('stored', 'open')
  await redis.set('seckill:token:{stored}:t1', 'x')
  const token = { tokenId: 't1', issue: 1, stored: true } as const
  expect(await stock.deduct({ ...ref, userId: 'u1', version: 'v1', token })).toMatchObject({
    status: 'reserved',
  })
})
