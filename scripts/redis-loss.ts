/**
 * S10, measured: `npm run redis-loss -- [--db mariadb|postgres] [--units 2000] [--orders 100000] [--json]`. A sale under load whose
 * Redis is flushed half way, and how long nobody could buy; then the rebuild of a sale with many orders.
 */
import { parseArgs } from 'node:util'
import {
  type Activity,
  FlashSale,
  MemoryQueue,
  newOrderNo,
  TriangleReconciler,
} from 'flash-sale-kit'
import {
  KnexActivityControl,
  KnexActivityStore,
  KnexFences,
  KnexLeases,
  KnexOrderBook,
} from 'flash-sale-kit/knex'
import type { Knex } from 'knex'
import { freshDatabase } from '../test/harness/databases.js'
import { until } from '../test/harness/net.js'
import { type FreshRedis, freshRedis } from '../test/harness/redis.js'
import { startMariadb, startPostgres } from '../test/harness/services.js'
import { provision } from './provision.js'

const audit = { actor: 'redis-loss', reason: 'measured' }
const SKU = 's1'

const { values } = parseArgs({
  options: {
    db: { type: 'string', default: 'mariadb' },
    units: { type: 'string', default: '2000' },
    orders: { type: 'string', default: '100000' },
    json: { type: 'boolean' },
    help: { type: 'boolean' },
  },
})
const { db } = values
const [units, orders] = [Number(values.units), Number(values.orders)]
const whole = (n: number) => Number.isInteger(n) && n >= 1 && n <= 1_000_000
if (values.help || !whole(units) || !whole(orders) || (db !== 'mariadb' && db !== 'postgres')) {
  console.log(
    'npm run redis-loss -- [--db mariadb|postgres] [--units 2000] [--orders 100000] [--json]',
  )
  process.exit(values.help ? 0 : 2)
}

function activityOf(activityId: string, of: number): Activity {
  const now = Date.now()
  return {
    ...{ activityId, version: '1', opensAt: now - 60_000, endsAt: now + 3_600_000 },
    ...{ payWithinMs: 900_000, mode: 'queued', tokens: 'off', maxPerOrder: 1 },
    skus: [{ skuId: SKU, units: of, priceMinor: 100, currency: 'CNY' }],
  }
}

function saleOn({ redis }: FreshRedis, knex: Knex, alerts: string[]) {
  const parts = {
    orders: new KnexOrderBook({ knex }),
    activities: new KnexActivityStore({ knex }),
    control: new KnexActivityControl({ knex }),
    fences: new KnexFences({ knex }),
  }
  const events = { onAlert: (code: string) => alerts.push(code) }
  return { ...parts, sale: new FlashSale({ redis, queue: new MemoryQueue(), ...parts, events }) }
}

/** FLUSHALL when half is sold; from there to the first unit sold again, and what came of it all. */
async function flushed(redis: FreshRedis, knex: Knex) {
  const alerts: string[] = []
  const { sale, orders: book, activities } = saleOn(redis, knex, alerts)
  const ref = { activityId: 'flushed', skuId: SKU }
  await activities.save(activityOf(ref.activityId, units))
  await sale.warmUp(ref.activityId, audit)
  await sale.control(ref.activityId, 'open', audit)
  sale.worker({ ordersPerSecond: 2_000 })
  sale.relay({ everyMs: 100, leaseMs: 1_000 })
  sale.guardian({ leases: new KnexLeases({ knex }) })
  await sale.start()
  let next = 0
  let queued = 0
  let flushedAt = 0
  let soldAgainAt = 0
  let done = false
  const browser = async () => {
    while (!done) {
      const asked = performance.now()
      const userId = `u${next++}`
      const { status } = await sale.submit({ ...ref, buyer: { userId, ip: '10.0.0.1' } })
      if (status === 'queued') {
        queued++
        if (flushedAt > 0 && asked > flushedAt) soldAgainAt ||= performance.now()
      }
      if (queued > units / 2 && flushedAt === 0) {
        flushedAt = performance.now()
        await redis.redis.flushall()
      }
      if (status !== 'queued') await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  const crowd = Promise.all(Array.from({ length: 50 }, browser))
  await until('all is sold', async () => (await book.numbers(ref))?.available === 0, 120_000)
  done = true
  await crowd
  await until('all is decided', async () => (await sale.stock.numbers(ref)).waiting === 0)
  const reconciler = new TriangleReconciler({ stock: sale.stock, orders: book, activities })
  const { difference } = await reconciler.inspect(ref.activityId)
  const live = (await book.numbers(ref))?.live
  await sale.stop()
  return {
    ...{ units, live, difference },
    pausedMs: soldAgainAt > 0 ? Math.round(soldAgainAt - flushedAt) : null,
    alerts: [...new Set(alerts)],
  }
}

/** The rebuild of a sale with many orders: how long, and the longest script. */
async function large(redis: FreshRedis, knex: Knex) {
  const { sale, orders: book, activities } = saleOn(redis, knex, [])
  const ref = { activityId: 'large', skuId: SKU }
  const activity = activityOf(ref.activityId, orders)
  await activities.save(activity)
  await sale.warmUp(ref.activityId, audit)
  await sale.control(ref.activityId, 'open', audit)
  for (let i = 0; i < orders; i += 1_000) {
    const some = Array.from({ length: Math.min(1_000, orders - i) }, (_, j) => ({
      ...{ ...ref, orderNo: newOrderNo(), userId: String(10 ** 9 + i + j), quantity: 1 },
      ...{ bucket: 0, version: '1', reservedAt: Date.now() },
    }))
    await book.confirm(some)
  }
  await redis.redis.flushall()
  await redis.redis.config('SET', 'slowlog-log-slower-than', '0')
  await redis.redis.config('SET', 'slowlog-max-len', '100000')
  await redis.redis.slowlog('RESET')
  const begun = performance.now()
  const rebuilt = await sale.rebuild(ref.activityId, audit, { waitMs: 0, reopen: true })
  const rebuildMs = Math.round(performance.now() - begun)
  const log = (await redis.redis.slowlog('GET', -1)) as [number, number, number, string[]][]
  const scripts = log.flatMap(([, , us, [name = '']]) => (/^eval/i.test(name) ? [us] : []))
  const { available } = await sale.stock.numbers(ref)
  await sale.stop()
  return {
    ...{ orders, status: rebuilt.status, available, rebuildMs, scripts: scripts.length },
    ...{
      medianScriptUs: scripts.sort((a, b) => a - b)[scripts.length >> 1],
      longestScriptUs: scripts.at(-1),
    },
  }
}

provision()
const server = db === 'mariadb' ? await startMariadb() : await startPostgres()
const redis = await freshRedis()
const database = await freshDatabase(db, { server })
try {
  await KnexOrderBook.migrate(database.knex)
  const result = {
    db,
    flushed: await flushed(redis, database.knex),
    large: await large(redis, database.knex),
  }
  if (values.json) console.log(JSON.stringify(result))
  else {
    console.log(`flushed in mid-sale: ${JSON.stringify(result.flushed)}`)
    console.log(`rebuilt: ${JSON.stringify(result.large)}`)
  }
  const right =
    result.flushed.live === units && result.flushed.difference === 0 && result.large.available === 0
  process.exitCode = right ? 0 : 1
} finally {
  await database.destroy()
  await redis.destroy()
  await server.stop()
}
