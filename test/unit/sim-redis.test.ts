import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
import { type RedisLike, StockBucket } from 'flash-sale-kit'
import { type Fengari, fengariVm } from 'flash-sale-kit/testing'
import { expect, it } from 'vitest'
import { readLedger, SIM_REF } from '../../src/testing/sim/ledger.js'
import { activityAt } from '../../src/testing/sim/names.js'
import { RedisStore } from '../../src/testing/sim/redis-store.js'
import { mockRedis } from '../harness/redis.js'

/** The simulated Redis without the simulator. */
function plainRedis(store: RedisStore): RedisLike {
  const vm = fengariVm(createRequire(import.meta.url)('fengari') as Fengari)
  const texts = new Map<string, string>()
  const run = async (lua: string, keys: number, args: readonly string[]) =>
    vm.run(lua, args.slice(0, keys), args.slice(keys), (name, rest) => store.call(name, rest))
  return {
    evalsha(sha, keys, ...args) {
      const lua = texts.get(sha)
      return lua ? run(lua, keys, args) : Promise.reject(new Error('NOSCRIPT'))
    },
    eval(lua, keys, ...args) {
      texts.set(createHash('sha1').update(lua).digest('hex'), lua)
      return run(lua, keys, args)
    },
  }
}

/** A sale with a bit of everything; what each call answered. */
async function sale(redis: RedisLike): Promise<unknown[]> {
  const activity = activityAt(Date.now())
  const stock = new StockBucket({ redis, deliver: async () => 'unknown', closeAfterMs: 1_000 })
  const of = (userId: string, no: string, quantity = 1) => ({
    ...SIM_REF,
    ...{ userId, orderNo: no, quantity, version: 'v1' },
  })
  const held = (userId: string, no: string) => ({
    ...of(userId, no),
    bucket: 0,
    reservedAt: 1_790_000_000_000,
  })
  const answers: unknown[] = []
  const note = async (answer: Promise<unknown>) => {
    const plain = JSON.parse(JSON.stringify(await answer)) as unknown
    answers.push(plain)
  }
  const numbers = [{ ...SIM_REF, total: 2, available: 2, live: 0 }]
  await note(stock.warmUp(activity, numbers))
  await note(stock.warmUp(activity, numbers))
  await note(stock.deduct(of('A', 'a1')).then((r) => r.status))
  await note(stock.control('a', 'open'))
  for (const [user, no, quantity] of [
    ['A', 'a1', 1],
    ['A', 'a1', 1],
    ['A', 'a2', 1],
    ['B', 'b1', 2],
    ['B', 'b2', 3],
    ['C', 'c1', 1],
    ['D', 'd1', 1],
  ] as const)
    await note(stock.deduct(of(user, no, quantity)).then(({ status }) => status))
  await note(
    stock.move([
      { to: 'confirmed', reservation: held('A', 'a1') },
      { to: 'released', reservation: held('C', 'c1'), reason: 'lost' },
      { to: 'released', reservation: held('C', 'c1'), reason: 'lost' },
      { to: 'paid', reservation: held('A', 'a1') },
      { to: 'confirmed', reservation: held('X', 'x1') },
      { to: 'confirmed', reservation: held('Y', 'y1') },
      { to: 'released', reservation: held('Z', 'z1'), reason: 'lost' },
    ]),
  )
  await note(stock.deduct(of('C', 'c1')).then(({ status }) => status))
  await note(stock.numbers(SIM_REF))
  await note(stock.scan(SIM_REF, '0').then(({ rows }) => rows.map((r) => [r.orderNo, r.state])))
  await note(stock.tombstones(SIM_REF, '0'))
  await note(stock.takeOwed('a', { leaseMs: 100, limit: 9 }).then((owed) => owed.length))
  await note(stock.reservation(SIM_REF, 'C').then((r) => (typeof r === 'string' ? r : r.reason)))
  await stock.stop()
  return answers
}

it('the simulated Redis answers every call as ioredis-mock does', async () => {
  const store = new RedisStore(Date.now)
  const mock = mockRedis()
  const simulated = await sale(plainRedis(store))
  expect(simulated).toEqual(await sale(mock))
  expect(simulated).toContainEqual([
    'done',
    'done',
    'already',
    'done',
    'adopted',
    'adopted',
    'unknown',
  ])
  const ledger = readLedger(store)
  expect(ledger).toMatchObject({ total: 3, available: 0, frozen: 2, sold: 1, over: 1, open: true })
  expect([...(ledger?.tombstones ?? [])]).toEqual(['c1'])
  expect(ledger?.records.get('a1')).toMatchObject({ userId: 'A', state: 'p', units: 1 })
})
