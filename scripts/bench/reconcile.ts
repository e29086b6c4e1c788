import { Redis } from 'ioredis'
import type { Activity } from '../../src/core/types.js'
import { KnexActivityStore, KnexOrderBook } from '../../src/knex/index.js'
import { StockBucket } from '../../src/stock/stock-bucket.js'
import { type FreshDatabase, freshDatabase } from '../../test/harness/databases.js'
import { startMariadb } from '../../test/harness/services/mariadb.js'
import { startRedis } from '../../test/harness/services/redis.js'
import { spawnNode } from '../../test/harness/spawn-node.js'
import { type Measured, median, rounded } from './measure.js'

const ROWS = 1_000_000
const ROUNDS = 5
const REF = { activityId: 'bench', skuId: 's1' }

interface Reading {
  readonly ms: number
  readonly rows: number
  readonly peakMb: number
}

/**
 * An inspection of 1,000,000 records × 1,000,000 orders, real Redis and MariaDB, against merely reading the same rows, by
 * turns, each in a process of its own; and once the Map of records that one would write first. A row is a record or an order.
 */
export async function run(o: { readonly log: (line: string) => void }): Promise<Measured> {
  const redis = await startRedis()
  const server = await startMariadb()
  const db = await freshDatabase('mariadb', { server })
  try {
    await plant(db, redis.port)
    o.log(`planted ${ROWS} records and ${ROWS} orders`)
    const measure = (how: string) => read(how, redis.port, db)
    const reconciled: Reading[] = []
    const readings: Reading[] = []
    for (let i = 1; i <= ROUNDS; i++) {
      const [inspection, reading] = [await measure('reconcile'), await measure('read')]
      o.log(`round ${i}: ${perSecond(inspection)} rows/s, merely read ${perSecond(reading)} rows/s`)
      reconciled.push(inspection)
      readings.push(reading)
    }
    const map = await measure('map')
    const peakMb = median(reconciled.map((r) => r.peakMb))
    return {
      ratios: {
        reconcileToMerelyReading: rounded(
          median(reconciled.map(perSecond)) / median(readings.map(perSecond)),
        ),
        memoryOfAMapToOurs: rounded(map.peakMb / peakMb),
      },
      medians: {
        reconcileRowsPerSecond: rounded(median(reconciled.map(perSecond))),
        readRowsPerSecond: rounded(median(readings.map(perSecond))),
        reconcilePeakMb: rounded(peakMb),
        readPeakMb: rounded(median(readings.map((r) => r.peakMb))),
        mapPeakMb: rounded(map.peakMb),
      },
    }
  } finally {
    await db.destroy()
    await server.stop()
    await redis.stop()
  }
}

const perSecond = ({ rows, ms }: Reading) => rounded((rows * 1_000) / ms)

async function read(how: string, port: number, db: FreshDatabase): Promise<Reading> {
  const { activityId, skuId } = REF
  const child = await spawnNode(new URL('./reconcile-reader.ts', import.meta.url), {
    args: [how, String(port), JSON.stringify(db.address), activityId, skuId],
  })
  const { code } = await child.exited
  const [, json] = /measured (.*)/.exec(child.output()) ?? []
  if (code !== 0 || !json) throw new Error(`${how} failed: ${child.output()}`)
  const reading = JSON.parse(json) as Reading
  if (reading.rows !== 2 * ROWS) throw new Error(`${how} read ${reading.rows} rows`)
  return reading
}

/** As after a sale that sold all of it: every order confirmed, and Redis told. */
async function plant(db: FreshDatabase, port: number): Promise<void> {
  const { knex } = db
  await KnexOrderBook.migrate(knex)
  const activity = activityOf(Date.now())
  await new KnexActivityStore({ knex }).save(activity)
  const orders = new KnexOrderBook({ knex })
  const redis = new Redis({ port, host: '127.0.0.1' })
  const stock = new StockBucket({ redis, deliver: 'nothing-owed' })
  await stock.warmUp(activity, await orders.prepare(activity))
  await knex.raw(
    `INSERT INTO seckill_order (order_no, activity_id, sku_id, user_id, quantity, bucket, version, status, amount_minor, currency, pay_by, live_key, reserved_at, created_at, updated_at)
     SELECT CONCAT('n', LPAD(seq, 18, '0')), ?, ?, CONCAT('user', seq), 1, 0, 'v1', 'CONFIRMED', 990, 'CNY', ?, CONCAT('user', seq), ?, ?, ? FROM seq_1_to_${ROWS}`,
    [REF.activityId, REF.skuId, ...Array(4).fill(activity.opensAt)],
  )
  await knex('seckill_stock').update({ available: 0 })
  const tag = `{${REF.activityId}}:${REF.skuId}`
  for (let from = 1; from <= ROWS; from += 5_000) {
    const fields: string[] = []
    for (let i = from; i < from + 5_000; i++)
      fields.push(`user${i}`, `c|n${String(i).padStart(18, '0')}|1|${activity.opensAt}|`)
    await redis.hset(`seckill:done:${tag}`, ...fields)
  }
  await redis.hset(`seckill:stock:${tag}`, { available: 0, frozen: ROWS })
  redis.disconnect()
}

function activityOf(opensAt: number): Activity {
  return {
    activityId: REF.activityId,
    version: 'v1',
    opensAt,
    endsAt: opensAt + 3_600_000,
    payWithinMs: 900_000,
    mode: 'queued',
    tokens: 'off',
    maxPerOrder: 1,
    skus: [{ skuId: REF.skuId, units: ROWS, priceMinor: 990, currency: 'CNY' }],
  }
}
