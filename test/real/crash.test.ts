import { Agent, request } from 'node:http'
import { type Activity, StockBucket, TriangleReconciler } from 'flash-sale-kit'
import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from 'flash-sale-kit/knex'
import { afterAll, describe, expect, test } from 'vitest'
import { type DatabaseKind, freshDatabase } from '../harness/databases.js'
import { until } from '../harness/net.js'
import type { RunningProcess } from '../harness/process.js'
import { freshRedis } from '../harness/redis.js'
import { spawnNode } from '../harness/spawn-node.js'

const ref = { activityId: 'a1', skuId: 's1' }
const audit = { actor: 'test', reason: 'crash test' }
const agent = new Agent({ keepAlive: true, maxSockets: 200 })
afterAll(() => agent.destroy())

interface Shop {
  readonly process: RunningProcess
  readonly port: number
}

type Answer = { status: string; orderNo?: string }

/** A sale of S units, warmed and open, with shops in processes of their own. */
async function openSale(kind: DatabaseKind, units: number) {
  const database = await freshDatabase(kind)
  const { redis, server, destroy } = await freshRedis()
  const { knex } = database
  await KnexOrderBook.migrate(knex)
  const orders = new KnexOrderBook({ knex })
  const activities = new KnexActivityStore({ knex })
  const now = Date.now()
  const activity: Activity = {
    activityId: 'a1',
    version: '1',
    opensAt: now - 60_000,
    endsAt: now + 3_600_000,
    payWithinMs: 900_000,
    mode: 'queued',
    tokens: 'required',
    maxPerOrder: 1,
    skus: [{ skuId: 's1', units, priceMinor: 100, currency: 'CNY' }],
  }
  await activities.save(activity)
  const stock = new StockBucket({ redis, deliver: 'nothing-owed' })
  await stock.warmUp(activity, await orders.prepare(activity))
  await new KnexActivityControl({ knex }).set('a1', 'open', audit)
  await stock.control('a1', 'open')

  const shops: Shop[] = []
  async function openShop(fault?: string): Promise<Shop> {
    const process = await spawnNode(new URL('./fixtures/shop.ts', import.meta.url), {
      env: {
        REDIS_PORT: String(server.port),
        DATABASE: JSON.stringify(database.address),
        ...(fault
          ? { FAULT: fault.split('@')[0] ?? '', FAULT_AT: fault.split('@')[1] ?? '1' }
          : {}),
      },
    })
    const line = await process.line(/listening \d+/)
    const shop = { process, port: Number(line.split(' ')[1]) }
    shops.push(shop)
    return shop
  }
  const reconciler = new TriangleReconciler({ stock, orders, activities, graceMs: 0 })
  return {
    shops,
    openShop,
    stock,
    orders,
    reconciler,
    async close() {
      await Promise.all(shops.map((s) => s.process.stop()))
      await destroy()
      await database.destroy()
    },
  }
}
type Sale = Awaited<ReturnType<typeof openSale>>

function ask(port: number, userId: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const req = request(
      { port, host: '127.0.0.1', path: `/${userId}`, agent, timeout: 5_000 },
      (res) => {
        let body = ''
        res.setEncoding('utf8')
        res.on('data', (chunk) => {
          body += chunk
        })
        res.on('end', () => (body ? resolve(JSON.parse(body)) : reject(new Error('no body'))))
        res.on('error', reject)
      },
    )
    req.on('timeout', () => req.destroy(new Error('timeout')))
    req.on('error', reject)
    req.end()
  })
}

const FINAL = new Set(['queued', 'sold-out', 'already-bought'])

/** Clicks until somebody answers for good, whichever shop is up; at most 30 s. */
async function clickUntilAnswered(sale: Sale, userId: string): Promise<Answer> {
  const end = Date.now() + 30_000
  let last: unknown = 'no shop was open'
  while (Date.now() < end) {
    const open = sale.shops.filter((s) => s.process.isAlive())
    const shop = open[Math.floor(Math.random() * open.length)]
    if (shop) {
      try {
        const answer = await ask(shop.port, userId)
        if (FINAL.has(answer.status)) return answer
        last = answer
      } catch (error) {
        last = error
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 30))
  }
  throw new Error(`${userId} was never answered: ${JSON.stringify(last)} ${last}`)
}

/** All clicks of all users, `concurrency` at a time. */
async function crowd(sale: Sale, users: readonly string[], concurrency: number) {
  const answers = new Map<string, Answer>()
  let next = 0
  const browser = async () => {
    while (next < users.length) {
      const user = users[next++] as string
      answers.set(user, await clickUntilAnswered(sale, user))
    }
  }
  await Promise.all(Array.from({ length: concurrency }, browser))
  return answers
}

/** 0 lost, 0 doubled, frozen + sold + available = S, pending = 0, and every winner hears his number again. */
async function expectWhole(sale: Sale, answers: ReadonlyMap<string, Answer>, units: number) {
  await until(
    'everything is decided',
    async () => {
      const n = await sale.stock.numbers(ref)
      return n.waiting === 0 && n.owed === 0
    },
    20_000,
  )
  const numbers = await sale.stock.numbers(ref)
  expect(numbers).toMatchObject({ total: units, pending: 0, over: 0 })
  expect(numbers.available + numbers.frozen + numbers.sold).toBe(units)
  const live = new Map<string, string>()
  for await (const row of sale.orders.snapshot(ref)) {
    if (row.status === 'closed') continue
    expect(live.has(row.userId), `${row.userId} has two orders`).toBe(false)
    live.set(row.userId, row.orderNo)
  }
  expect(live.size).toBe(Math.min(units, answers.size))
  expect((await sale.orders.numbers(ref))?.available).toBe(units - live.size)
  for (const [user, answer] of answers) {
    if (answer.status === 'sold-out')
      expect(live.has(user), `${user} has an order but heard sold-out`).toBe(false)
    else expect(live.get(user), `${user} was told ${answer.orderNo}`).toBe(answer.orderNo)
  }
  for (const [user, orderNo] of live)
    expect(await clickUntilAnswered(sale, user)).toMatchObject({
      status: 'queued',
      orderNo,
      replayed: true,
    })
  const report = await sale.reconciler.inspect('a1')
  expect(report.findings).toEqual([])
  expect(report.difference).toBe(0)
}

const users = (n: number) => Array.from({ length: n }, (_, i) => `u${i}`)

/** Step and how-manieth time: what comes after a commit may come only once, for all orders together. */
const STEPS = [
  'deduct:before@2',
  'deduct:sent@2',
  'deduct:after@2',
  'send:before@2',
  'send:after@2',
  'confirm:before@2',
  'confirm:inside@1',
  'confirm:after@1',
  'move:before@1',
  'move:after@1',
  'delivered:before@1',
  'delivered:after@1',
  'ack:before@1',
] as const

describe.each([
  ['mariadb', STEPS],
  ['postgres', ['deduct:sent@2', 'confirm:inside@1', 'confirm:after@1']],
] as const)('kill -9 on %s', (kind, steps) => {
  test.each(steps)('V3: at %s, then a restart: 0 lost, 0 doubled', async (step) => {
    const sale = await openSale(kind, 12)
    try {
      const doomed = await sale.openShop(step)
      const answers = crowd(sale, users(20), 3)
      answers.catch(() => {}) // expectWhole hears it; until then a failed step must be told first
      await until(`the shop dies at ${step}`, () => !doomed.process.isAlive(), 20_000)
      await sale.openShop()
      await expectWhole(sale, await answers, 12)
    } finally {
      await sale.close()
    }
  })
})

describe('kill -9 in mid-burst', () => {
  test.each([
    ['one', 1],
    ['all', 2],
  ] as const)('V3: of %s of two processes: 0 lost, 0 doubled', async (_, victims) => {
    const sale = await openSale('mariadb', 300)
    try {
      await Promise.all([sale.openShop(), sale.openShop()])
      const answers = crowd(sale, users(3_000), 100)
      await until(
        'the burst is under way',
        async () => (await sale.stock.numbers(ref)).available < 200,
        20_000,
      )
      for (const shop of sale.shops.slice(0, victims)) shop.process.kill('SIGKILL')
      await Promise.all(Array.from({ length: victims }, () => sale.openShop()))
      await expectWhole(sale, await answers, 300)
    } finally {
      await sale.close()
    }
  })
})
