import { randomBytes } from 'node:crypto'
import { Agent, request } from 'node:http'
import { type Report, TokenIssuer, TriangleReconciler } from 'flash-sale-kit'
import { KnexOrderBook } from 'flash-sale-kit/knex'
import { openShop } from '../../examples/express/server.js'
import { type Endpoint, freshDatabase } from './databases.js'
import { freePort, until } from './net.js'
import { freshRedis } from './redis.js'
import { spawnNode } from './spawn-node.js'

export interface WholeSaleOptions {
  readonly db: 'mariadb' | 'postgres'
  readonly server?: Endpoint
  readonly requests?: number
  readonly units?: number
  readonly duplicates?: number
  readonly connections?: number
  /** The serving process, instead of the example itself. */
  readonly shop?: URL
  readonly onAnswer?: (answer: Timed) => void
}

/** One answer, and how long it took. */
export interface Timed {
  readonly userId: string
  readonly code: string
  readonly orderNo?: string
  readonly ms: number
}

export interface WholeSaleResult {
  /** Answers by business code. */
  readonly codes: Readonly<Record<string, number>>
  /** Every order number that a buyer was told, by buyer; more than one number is a fault. */
  readonly told: ReadonlyMap<string, ReadonlySet<string>>
  /** Buyer by live order number in the database. */
  readonly live: ReadonlyMap<string, string>
  /** Rows in the shop's own order table. */
  readonly shopOrders: number
  readonly report: Report
  readonly exitCodes: readonly (number | null)[]
  /** What each process wrote. */
  readonly outputs: readonly string[]
}

interface Answer {
  readonly code: string
  readonly orderNo?: string
}

const AUDIT = { actor: 'whole sale', reason: 'load test' }
const SKU = 'phone'
const EXAMPLE = new URL('../../examples/express/server.ts', import.meta.url)

/**
 * V2 and the first half of V3 through HTTP: a burst of POSTs, a share of them repeats, against the Express example in two
 * processes on a real Redis and a real database, until every order is decided.
 */
export async function wholeSale(o: WholeSaleOptions): Promise<WholeSaleResult> {
  const { requests = 50_000, units = 1_000, duplicates = 0.1, connections = 200 } = o
  const redis = await freshRedis()
  const database = await freshDatabase(o.db, o.server ? { server: o.server } : {})
  const { address } = database
  if (address.kind === 'sqlite') throw new Error('a real database is wanted')
  const { user, password, host, port, database: name } = address
  const protocol = o.db === 'mariadb' ? 'mysql' : 'postgres'
  const env = {
    REDIS_URL: `redis://${redis.server.host}:${redis.server.port}`,
    DB_URL: `${protocol}://${user}:${password}@${host}:${port}/${name}`,
    TOKEN_KEY: randomBytes(32).toString('base64'),
    ORDERS_PER_SECOND: '2000',
  }
  const operator = openShop(env)
  const shops = []
  try {
    const { activities, sale } = operator
    await operator.migrate()
    const now = Date.now()
    const activity = {
      activityId: 'v2',
      version: '1',
      opensAt: now - 1_000,
      endsAt: now + 3_600_000,
      payWithinMs: 900_000,
      mode: 'queued',
      tokens: 'required',
      maxPerOrder: 1,
      skus: [{ skuId: SKU, units, priceMinor: 9_900, currency: 'CNY' }],
    } as const
    await activities.save(activity)
    await sale.warmUp('v2', AUDIT)
    await sale.control('v2', 'open', AUDIT)
    for (let i = 0; i < 2; i++) {
      const shopPort = await freePort()
      const child = await spawnNode(o.shop ?? EXAMPLE, {
        env: { ...env, PORT: String(shopPort) },
      })
      await child.line(/^listening on/, 60_000)
      shops.push({ child, port: shopPort })
    }
    const tokens = new TokenIssuer({
      keys: [{ kid: 'k1', secret: Buffer.from(env.TOKEN_KEY, 'base64') }],
    })
    const token = (userId: string) =>
      tokens.issue({ activityId: 'v2', userId }, { expiresAt: activity.endsAt, epoch: 1 })

    const path = `/api/seckill/v2/${SKU}/submit`
    const ports = shops.map((s) => s.port)
    const burst = { requests, duplicates, connections, ports, path, token }
    const { onAnswer } = o
    const { codes, told } = await sendBurst(onAnswer ? { ...burst, onAnswer } : burst)
    const ref = { activityId: 'v2', skuId: SKU }
    await until('every order is decided', async () => (await sale.stock.numbers(ref)).waiting === 0)
    const orders = new KnexOrderBook({ knex: database.knex })
    const live = new Map<string, string>()
    for await (const row of orders.snapshot(ref))
      if (row.status !== 'closed') live.set(row.orderNo, row.userId)
    const [count] = await database.knex('shop_order').count({ n: '*' })
    const report = await new TriangleReconciler({ stock: sale.stock, orders, activities }).inspect(
      'v2',
    )
    const exitCodes = []
    for (const { child } of shops) {
      await child.kill('SIGTERM')
      exitCodes.push((await child.exited).code)
    }
    const outputs = shops.map(({ child }) => child.output())
    return { codes, told, live, shopOrders: Number(count?.n), report, exitCodes, outputs }
  } finally {
    await Promise.all(shops.map((s) => s.child.stop()))
    await operator.close()
    await database.destroy()
    await redis.destroy()
  }
}

/** Sends each request once, over kept connections; a broken one is thrown, not counted away. */
export async function sendBurst(o: {
  readonly requests: number
  readonly duplicates: number
  readonly connections: number
  readonly ports: readonly number[]
  readonly path: string
  readonly token: (userId: string) => Promise<string>
  readonly onAnswer?: (answer: Timed) => void
}) {
  const agent = new Agent({ keepAlive: true, maxSockets: o.connections, scheduling: 'fifo' })
  const codes: Record<string, number> = {}
  const told = new Map<string, Set<string>>()
  let next = 0
  const client = async () => {
    while (next < o.requests) {
      const i = next++
      const repeats = Math.floor(i * o.duplicates)
      const isRepeat = Math.floor((i + 1) * o.duplicates) > repeats && i > repeats
      const userId = `u${isRepeat ? Math.floor(Math.random() * (i - repeats)) : i - repeats}`
      const port = o.ports[i % o.ports.length] as number
      const token = await o.token(userId)
      const since = performance.now()
      const answer = await post(agent, { port, path: o.path }, userId, token)
      o.onAnswer?.({ ...answer, userId, ms: performance.now() - since })
      codes[answer.code] = (codes[answer.code] ?? 0) + 1
      if (answer.orderNo === undefined) continue
      const numbers = told.get(userId) ?? new Set()
      told.set(userId, numbers.add(answer.orderNo))
    }
  }
  try {
    await Promise.all(Array.from({ length: o.connections }, client))
  } finally {
    agent.destroy()
  }
  return { codes, told }
}

function post(
  agent: Agent,
  to: { readonly port: number; readonly path: string },
  userId: string,
  token: string,
): Promise<Answer> {
  const body = '{"quantity":1,"payload":{"addressId":"a1"}}'
  const headers = {
    'content-type': 'application/json',
    'content-length': String(body.length),
    'x-demo-user': userId,
    'x-seckill-token': token,
  }
  const { port, path } = to
  return new Promise((resolve, reject) => {
    const req = request(
      { host: '127.0.0.1', port, path, method: 'POST', headers, agent },
      (res) => {
        let text = ''
        res.setEncoding('utf8')
        res.on('data', (chunk) => {
          text += chunk
        })
        res.on('error', reject)
        res.on('end', () => resolve(JSON.parse(text) as Answer))
      },
    )
    req.on('error', reject)
    req.end(body)
  })
}

/** What is wrong with a sale; empty when all is as it must be. */
export function faultsOf(
  r: Omit<WholeSaleResult, 'outputs'>,
  o: { requests: number; units: number },
): string[] {
  const faults: string[] = []
  const expect = (holds: boolean, what: string) => {
    if (!holds) faults.push(what)
  }
  const answered = Object.values(r.codes).reduce((sum, n) => sum + n, 0)
  expect(answered === o.requests, `${answered} answers to ${o.requests} requests`)
  expect(r.live.size === o.units, `${r.live.size} live orders for ${o.units} units`)
  expect(r.shopOrders === o.units, `${r.shopOrders} rows in the shop's own table`)
  expect(new Set(r.live.values()).size === r.live.size, 'a buyer has two live orders')
  expect(r.told.size === o.units, `${r.told.size} buyers were told a number`)
  for (const [userId, numbers] of r.told) {
    expect(numbers.size === 1, `${userId} was told ${[...numbers]}`)
    for (const orderNo of numbers)
      expect(r.live.get(orderNo) === userId, `${userId} was told ${orderNo}, which is not his`)
  }
  const known = new Set(['SECKILL_QUEUED', 'SECKILL_SOLD_OUT', 'SECKILL_BUSY'])
  for (const code of Object.keys(r.codes)) expect(known.has(code), `somebody heard ${code}`)
  expect(r.report.difference === 0 && r.report.findings.length === 0, 'the triangle differs')
  const numbers = r.report.triangles[0]?.redis
  expect(numbers?.available === 0 && numbers.pending === 0, 'units are left, or pending')
  expect(
    r.exitCodes.every((code) => code === 0),
    `exit codes ${r.exitCodes}`,
  )
  return faults
}
