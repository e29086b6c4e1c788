import { Redis } from 'ioredis'
import type { OrderRow } from '../../src/core/order-book.js'
import type { ReservationRecord } from '../../src/core/types.js'
import { KnexActivityStore, KnexOrderBook } from '../../src/knex/index.js'
import { TriangleReconciler } from '../../src/reconcile/triangle-reconciler.js'
import { StockBucket } from '../../src/stock/stock-bucket.js'
import { type DatabaseAddress, openDatabase } from '../../test/harness/databases.js'

/** One reading of both sides in a process of its own, so that its memory is its own: prints `{ms, rows, peakMb}`. */
const [how = '', port = '', database = '', activityId = '', skuId = ''] = process.argv.slice(2)
const ref = { activityId, skuId }
const redis = new Redis({ port: Number(port), host: '127.0.0.1' })
const knex = openDatabase(JSON.parse(database) as DatabaseAddress, { poolMax: 2 })
const stock = new StockBucket({ redis, deliver: 'nothing-owed', timeoutMs: 30_000 })
const orders = new KnexOrderBook({ knex, statementTimeoutMs: 60_000 })

async function* records(): AsyncGenerator<readonly ReservationRecord[]> {
  for (let cursor: string | null = '0'; cursor !== null; ) {
    const page: Awaited<ReturnType<StockBucket['scan']>> = await stock.scan(ref, cursor)
    yield page.rows
    cursor = page.next
  }
}

const READINGS: Record<string, () => Promise<number>> = {
  /** The whole of an inspection. */
  async reconcile() {
    const activities = new KnexActivityStore({ knex })
    const report = await new TriangleReconciler({ stock, orders, activities }).inspect(activityId)
    if (report.findings.length > 0) throw new Error(JSON.stringify(report.counts))
    const [t] = report.triangles
    return (t?.confirmed ?? 0) + (t?.redis.frozen ?? 0)
  },
  /** The same rows, read and dropped: nothing that compares them can be faster. */
  async read() {
    let rows = 0
    for await (const page of records()) rows += page.length
    for await (const _ of orders.snapshot(ref)) rows++
    return rows
  },
  /** As one would write it first: all records in a Map. */
  async map() {
    const byNumber = new Map<string, ReservationRecord>()
    for await (const page of records()) for (const r of page) byNumber.set(r.orderNo, r)
    let rows = byNumber.size
    const differs: OrderRow[] = []
    for await (const row of orders.snapshot(ref)) {
      rows++
      if (byNumber.get(row.orderNo)?.state !== row.status) differs.push(row)
    }
    if (differs.length > 0) throw new Error(`${differs.length} differ`)
    return rows
  },
}

const reading = READINGS[how]
if (!reading) throw new Error(`no reading ${how}`)
const startedAt = performance.now()
const rows = await reading()
const ms = performance.now() - startedAt
console.log(
  `measured ${JSON.stringify({ ms, rows, peakMb: process.resourceUsage().maxRSS / 1_024 })}`,
)
redis.disconnect()
await knex.destroy()
