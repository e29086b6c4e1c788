import { randomBytes } from 'node:crypto'
import {
  FlashSale,
  formatReport,
  type Report,
  TokenIssuer,
  TriangleReconciler,
} from 'flash-sale-kit'
import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from 'flash-sale-kit/knex'
import { letThemIn, type Tally } from './demo/crowd.js'
import { type Environment, openEnvironment } from './demo/environment.js'
import { type DemoOptions, demoOptions } from './demo/options.js'
import { progressBar } from './demo/progress.js'

const ref = { activityId: 'demo', skuId: 'phone' }
const audit = { actor: 'demo', reason: 'demonstration' }
/** How long the last orders may take to be confirmed before the demo says that they are lost. */
const SETTLE_MS = 60_000

async function sell(o: DemoOptions, { redis, knex, queue }: Environment) {
  await KnexOrderBook.migrate(knex)
  const orders = new KnexOrderBook({ knex })
  const activities = new KnexActivityStore({ knex })
  const now = Date.now()
  await activities.save({
    ...{
      activityId: ref.activityId,
      version: '1',
      mode: 'queued',
      tokens: 'required',
      maxPerOrder: 1,
    },
    ...{ opensAt: now - 60_000, endsAt: now + 3_600_000, payWithinMs: 900_000 },
    skus: [{ skuId: ref.skuId, units: o.stock, priceMinor: 99_900, currency: 'CNY' }],
  })
  const sale = new FlashSale({
    redis,
    queue,
    orders,
    activities,
    control: new KnexActivityControl({ knex }),
    tokens: new TokenIssuer({ keys: [{ kid: 'demo', secret: randomBytes(32) }] }),
    // A script of 256 takes ioredis-mock 25 ms, so what Redis does in 200 ms may take it seconds.
    stock: o.real ? {} : { maxWaitMs: 10_000, timeoutMs: 10_000 },
    events: { onAlert: (code, detail) => console.error(`alert: ${code}`, detail) },
  })
  sale.worker({ ordersPerSecond: 5_000 })
  sale.relay()
  await sale.warmUp(ref.activityId, audit)
  await sale.control(ref.activityId, 'open', audit)
  await sale.start()
  const bar = progressBar(o.requests)
  const begun = performance.now()
  const tally = await letThemIn(sale, ref, { ...o, progress: bar.at })
  bar.end()
  await settled(sale)
  const seconds = (performance.now() - begun) / 1_000
  const report = await new TriangleReconciler({ stock: sale.stock, orders, activities }).inspect(
    ref.activityId,
  )
  const unbooked = await withoutRow(orders, [...tally.queued])
  await sale.stop()
  return { tally, report, seconds, unbooked }
}

/** How many of the numbers that buyers were told the database has never heard of. */
async function withoutRow(orders: KnexOrderBook, numbers: readonly string[]): Promise<number> {
  let found = 0
  for (let i = 0; i < numbers.length; i += 1_000)
    found += (await orders.find(numbers.slice(i, i + 1_000))).length
  return numbers.length - found
}

async function settled(sale: FlashSale): Promise<void> {
  const end = performance.now() + SETTLE_MS
  while ((await sale.stock.numbers(ref)).waiting > 0 && performance.now() < end)
    await new Promise((resolve) => setTimeout(resolve, 20))
}

function summary(o: DemoOptions, tally: Tally, report: Report, unbooked: number) {
  const [triangle] = report.triangles
  if (!triangle) throw new Error('the report has no triangle')
  const { physical, redis, database, confirmed, paid, closedOrders } = triangle
  return {
    requests: o.requests,
    stock: o.stock,
    queued: tally.queued.size,
    soldOut: tally.soldOut,
    duplicate: tally.duplicate,
    other: [...tally.other.values()].reduce((sum, n) => sum + n, 0),
    confirmed: confirmed + paid,
    closed: closedOrders,
    available: redis.available,
    frozen: redis.frozen,
    sold: redis.sold,
    oversold: Math.max(0, database.live - physical),
    // Winners without a row, and units that are neither on sale nor in a live order.
    lost: unbooked + Math.abs(physical - redis.available - database.live) + triangle.difference,
  }
}

const o = demoOptions(process.argv.slice(2))
const environment = await openEnvironment(o)
let failed = true
try {
  const { tally, report, seconds, unbooked } = await sell(o, environment)
  const numbers = summary(o, tally, report, unbooked)
  console.log(formatReport(report))
  if (tally.other.size > 0) console.log('other answers:', Object.fromEntries(tally.other))
  const result = { ...numbers, seconds: Number(seconds.toFixed(2)), backend: environment.backend }
  console.log(o.json ? JSON.stringify(result) : result)
  failed = numbers.oversold !== 0 || numbers.lost !== 0
} finally {
  await environment.close()
}
process.exitCode = failed ? 1 : 0
