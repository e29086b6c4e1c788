import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Activity, StockBucket, TriangleReconciler } from 'flash-sale-kit'
import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from 'flash-sale-kit/knex'
import { type DatabaseKind, type Endpoint, freshDatabase } from '../../harness/databases.js'
import { until } from '../../harness/net.js'
import type { RunningProcess } from '../../harness/process.js'
import type { QueueAddress } from '../../harness/queues.js'
import { freshRedis } from '../../harness/redis.js'
import { spawnNode } from '../../harness/spawn-node.js'

export const ref = { activityId: 'a1', skuId: 's1' }
const audit = { actor: 'test', reason: 'crash test' }
/** How long a buyer waits for an answer. */
const ASK_MS = 5_000
const agent = new Agent({ keepAlive: true, maxSockets: 200 })

export interface ShopOptions {
  /** Step and how-manieth time at which it kills itself, as in `confirm:inside@1`. */
  readonly fault?: string
  readonly role?: 'shop' | 'consumer' | 'both'
  /** Orders written within a second, by all shops of the sale together; 2,000 unless told otherwise. */
  readonly ordersPerSecond?: number
}

export interface Shop {
  readonly process: RunningProcess
  readonly port: number
  readonly sells: boolean
}

export type Answer = { status: string; orderNo?: string }

/** A sale of S units, warmed and open, with shops in processes of their own; outside a test run `server` is needed. */
export async function openSale(
  kind: DatabaseKind,
  units: number,
  queue: QueueAddress = { kind: 'memory' },
  server?: Endpoint,
) {
  const database = await freshDatabase(kind, server ? { server } : {})
  const { redis, server: redisServer, destroy } = await freshRedis()
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
  async function openShop(o: ShopOptions = {}): Promise<Shop> {
    const [fault = '', at = '1'] = (o.fault ?? '').split('@')
    const process = await spawnNode(new URL('../../real/fixtures/shop.ts', import.meta.url), {
      env: {
        REDIS_PORT: String(redisServer.port),
        DATABASE: JSON.stringify(database.address),
        QUEUE: JSON.stringify(queue),
        ROLE: o.role ?? 'both',
        ...(o.ordersPerSecond ? { ORDERS_PER_SECOND: String(o.ordersPerSecond) } : {}),
        FAULT: fault,
        FAULT_AT: at,
      },
    })
    const line = await process.line(/listening \d+/)
    const shop = { process, port: Number(line.split(' ')[1]), sells: o.role !== 'consumer' }
    shops.push(shop)
    return shop
  }
  const reconciler = new TriangleReconciler({ stock, orders, activities, graceMs: 0 })
  return {
    shops,
    openShop,
    knex,
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
export type Sale = Awaited<ReturnType<typeof openSale>>

function ask(port: number, userId: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const req = request(
      { port, host: '127.0.0.1', path: `/${userId}`, agent, timeout: ASK_MS },
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
    const open = sale.shops.filter((s) => s.sells && s.process.isAlive())
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

/** What each user heard. */
export type Heard = ReadonlyMap<string, readonly Answer[]>

/** All clicks, `concurrency` at a time, each `pauseMs` after the one before; a user may be named more than once. */
export async function crowd(
  sale: Sale,
  clicks: readonly string[],
  concurrency: number,
  pauseMs = 0,
): Promise<Heard> {
  const heard = new Map<string, Answer[]>()
  let next = 0
  const browser = async () => {
    while (next < clicks.length) {
      const user = clicks[next++] as string
      const answer = await clickUntilAnswered(sale, user)
      heard.set(user, [...(heard.get(user) ?? []), answer])
      if (pauseMs > 0) await sleep(pauseMs)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, browser))
  return heard
}

/** Nothing is under way any more. */
async function settled(sale: Sale): Promise<void> {
  const idle = async () => {
    const n = await sale.stock.numbers(ref)
    if (n.waiting > 0 || n.owed > 0) return false
    // What a killed process did not tell of its closings, the relay does 15 s later.
    const releases = { topic: 'seckill.release', status: 0 }
    return (await sale.knex('local_message').where(releases).first('id')) === undefined
  }
  await until('everything is decided', idle, 40_000)
}

/** At rest: frozen + sold + available = S, one live order a buyer, a triangle without findings. */
export async function liveOrders(sale: Sale, units: number): Promise<ReadonlyMap<string, string>> {
  await settled(sale)
  const numbers = await sale.stock.numbers(ref)
  const { total, available, frozen, sold, pending, over } = numbers
  assert.deepEqual({ total, pending, over }, { total: units, pending: 0, over: 0 })
  assert.equal(available + frozen + sold, units)
  const live = new Map<string, string>()
  for await (const row of sale.orders.snapshot(ref)) {
    if (row.status === 'closed') continue
    assert(!live.has(row.userId), `${row.userId} has two orders`)
    live.set(row.userId, row.orderNo)
  }
  assert.equal(available, units - live.size)
  assert.equal((await sale.orders.numbers(ref))?.available, units - live.size)
  const report = await sale.reconciler.inspect('a1')
  assert.deepEqual(report.findings, [])
  assert.equal(report.difference, 0)
  return live
}

/** 0 lost, 0 doubled: all units are sold, whoever was told a number has that order, and hears it again. */
export async function expectWhole(sale: Sale, heard: Heard, units: number): Promise<void> {
  const live = await liveOrders(sale, units)
  assert.equal(live.size, Math.min(units, heard.size))
  for (const [user, answers] of heard)
    for (const { status, orderNo } of answers) {
      if (status === 'sold-out') assert(!live.has(user), `${user} has an order but heard sold-out`)
      else assert.equal(live.get(user), orderNo, `${user} was told ${orderNo}`)
    }
  await expectRepeated(sale, live)
}

/** Every winner who asks again hears his order number. */
async function expectRepeated(sale: Sale, live: ReadonlyMap<string, string>): Promise<void> {
  for (const [user, orderNo] of live)
    assert.deepEqual(await clickUntilAnswered(sale, user), {
      status: 'queued',
      orderNo,
      replayed: true,
    })
}

export const users = (n: number) => Array.from({ length: n }, (_, i) => `u${i}`)
