import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Activity, type OrderRow, StockBucket, TriangleReconciler } from 'flash-sale-kit'
import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from 'flash-sale-kit/knex'
import { type DatabaseKind, type Endpoint, freshDatabase } from '../../harness/databases.js'
import { until } from '../../harness/net.js'
import type { RunningProcess } from '../../harness/process.js'
import type { QueueAddress } from '../../harness/queues.js'
import { freshRedis } from '../../harness/redis.js'
import type { Server } from '../../harness/services/server.js'
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
  /** Share of its sends that fail. */
  readonly flaky?: number
  /** Orders written within a second, by all shops of the sale together; 2,000 unless told otherwise. */
  readonly ordersPerSecond?: number
}

export interface Shop {
  readonly process: RunningProcess
  readonly port: number
  readonly sells: boolean
}

export type Answer = { status: string; orderNo?: string }

/** One question put to a shop; `status` is `no-answer` when none came. */
interface Asked {
  readonly at: number
  readonly tookMs: number
  readonly status: string
}

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
  const asked: Asked[] = []
  async function openShop(o: ShopOptions = {}): Promise<Shop> {
    const [fault = '', at = '1'] = (o.fault ?? '').split('@')
    const process = await spawnNode(new URL('../../real/fixtures/shop.ts', import.meta.url), {
      env: {
        REDIS_PORT: String(redisServer.port),
        DATABASE: JSON.stringify(database.address),
        QUEUE: JSON.stringify(queue),
        ROLE: o.role ?? 'both',
        FLAKY: String(o.flaky ?? 0),
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
    /** Every question and when its answer came, in order of the answers. */
    asked,
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
      const at = Date.now()
      const note = (status: string) => sale.asked.push({ at, tookMs: Date.now() - at, status })
      try {
        const answer = await ask(shop.port, userId)
        note(answer.status)
        if (FINAL.has(answer.status)) return answer
        last = answer
      } catch (error) {
        note('no-answer')
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

/**
 * The same where sends fail: a number that a buyer was told may have been closed (a refused send), never forgotten; and a
 * unit that came back late may find nobody who still wants it.
 */
export async function expectSound(
  sale: Sale,
  heard: Heard,
  units: number,
): Promise<ReadonlyMap<string, string>> {
  const live = await liveOrders(sale, units)
  assert(live.size <= units, `${live.size} live orders of ${units} units`)
  const told = [...heard].flatMap(([user, answers]) =>
    answers.flatMap(({ orderNo }) => (orderNo ? [{ user, orderNo }] : [])),
  )
  const rows = new Map<string, OrderRow>()
  for (let i = 0; i < told.length; i += 1_000)
    for (const row of await sale.orders.find(told.slice(i, i + 1_000).map((t) => t.orderNo)))
      rows.set(row.orderNo, row)
  for (const { user, orderNo } of told)
    assert.equal(rows.get(orderNo)?.userId, user, `${user} was told ${orderNo}`)
  await expectRepeated(sale, live)
  return live
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

/** What befalls a sale while its crowd clicks. */
export interface Disturbance {
  readonly units: number
  readonly buyers: number
  readonly concurrency: number
  readonly pauseMs: number
  readonly ordersPerSecond?: number
  act(sale: Sale, consumers: Shop[]): Promise<void>
}

/** Four kills at random moments, each consumer replaced at once; as slow as this they have work until the last of them. */
export function killedConsumers(
  o: { readonly units: number; readonly buyers: number } = { units: 300, buyers: 3_000 },
): Disturbance {
  const ordersPerSecond = Math.ceil(o.units / 5)
  return {
    ...o,
    ordersPerSecond,
    concurrency: 100,
    pauseMs: 0,
    async act(sale, consumers) {
      for (let kill = 0; kill < 4; kill++) {
        await sleep(Math.random() * 800)
        await consumers[kill % 2]?.process.kill('SIGKILL')
        consumers[kill % 2] = await sale.openShop({ role: 'consumer', ordersPerSecond })
      }
    },
  }
}

/** Longer than any deadline of a shop, with room for a machine that has other work. */
const ANSWERED_WITHIN_MS = 3_000

/**
 * The broker dies (`SIGKILL`, and is started again) or freezes (`SIGSTOP`) for `ms`, when a sixth of the units is sold. Meanwhile
 * every question is answered, and what was promised is owed. Few buyers who take their time, so that most units are sold
 * while the broker is away.
 */
export function brokerOutage(
  broker: Pick<Server, 'kill' | 'restart'>,
  signal: 'SIGKILL' | 'SIGSTOP',
  ms: number,
): Disturbance {
  const units = 600
  return {
    units,
    buyers: 1_200,
    concurrency: 20,
    pauseMs: 50,
    async act(sale) {
      const mid = async () => (await sale.stock.numbers(ref)).available < (units * 5) / 6
      await until('the sale is under way', mid)
      await broker.kill(signal)
      const down = Date.now()
      await sleep(ms)
      const { owed } = await sale.stock.numbers(ref)
      if (signal === 'SIGKILL') await broker.restart()
      else await broker.kill('SIGCONT')
      const up = Date.now()
      await sleep(Math.max(0, up + ASK_MS + 100 - Date.now())) // by then also "no answer" is known
      const during = sale.asked.filter((a) => a.at >= down && a.at < up)
      assert(owed > 0, 'no batch waits for the broker')
      assert.deepEqual(
        during.filter((a) => a.status === 'no-answer'),
        [],
      )
      const slowest = Math.max(...during.map((a) => a.tookMs))
      assert(slowest < ANSWERED_WITHIN_MS, `an answer took ${slowest} ms`)
      assert(during.some((a) => a.status === 'queued'))
    },
  }
}

/**
 * V3 whole: 10 % repeated clicks, 5 % failed sends of all three kinds, and the disturbance given; two shops, two consumers,
 * on the servers and the queue given.
 */
export async function besiegedSale(
  kind: DatabaseKind,
  queue: QueueAddress,
  disturbance: Disturbance = killedConsumers(),
  server?: Endpoint,
): Promise<SiegeFigures> {
  const { units, buyers, concurrency, pauseMs, ordersPerSecond = 2_000 } = disturbance
  const sale = await openSale(kind, units, queue, server)
  try {
    await Promise.all([
      sale.openShop({ role: 'shop', flaky: 0.05 }),
      sale.openShop({ role: 'shop', flaky: 0.05 }),
    ])
    const consumers = await Promise.all([
      sale.openShop({ role: 'consumer', ordersPerSecond }),
      sale.openShop({ role: 'consumer', ordersPerSecond }),
    ])
    const clicks = users(buyers).flatMap((user, i) =>
      i % 10 === 9 ? [user, `u${i >> 1}`] : [user],
    )
    const heard = crowd(sale, clicks, concurrency, pauseMs)
    heard.catch(() => {}) // told below; a disturbance that failed must be told first
    await disturbance.act(sale, consumers)
    const answers = await heard
    const since = performance.now()
    await settled(sale)
    const recoveryMs = Math.round(performance.now() - since)
    const live = await expectSound(sale, answers, units)
    const statuses: Record<string, number> = {}
    for (const { status } of sale.asked) statuses[status] = (statuses[status] ?? 0) + 1
    return { clicks: clicks.length, live: live.size, statuses, recoveryMs }
  } finally {
    await sale.close()
  }
}

export interface SiegeFigures {
  readonly clicks: number
  readonly live: number
  /** Answers to every try of every click. */
  readonly statuses: Readonly<Record<string, number>>
  /** From the end of disturbance and crowd until everything is decided. */
  readonly recoveryMs: number
}
