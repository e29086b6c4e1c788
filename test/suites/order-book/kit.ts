import type { Knex } from 'knex'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { newOrderNo } from '../../../src/core/order-no.js'
import type { Activity, Reservation, SkuRef } from '../../../src/core/types.js'
import {
  KnexActivityControl,
  KnexOrderBook,
  type KnexOrderBookOptions,
} from '../../../src/knex/index.js'
import { type DatabaseKind, type FreshDatabase, freshDatabase } from '../../harness/databases.js'

export const AUDIT = { actor: 'op', reason: 'a test' } as const

/** One activity of its own for each test, with what a test needs to say about it. */
export interface Sale {
  readonly activity: Activity
  readonly activityId: string
  ref(sku?: number): SkuRef
  reservation(userId: string, o?: Partial<Reservation>): Reservation
  reservations(count: number, o?: Partial<Reservation>): readonly Reservation[]
}

export interface SaleOptions {
  readonly units?: number
  readonly skus?: number
  readonly prepared?: boolean
  readonly open?: boolean
  readonly maxPerOrder?: number
}

export interface Kit {
  readonly kind: DatabaseKind
  readonly db: FreshDatabase
  readonly knex: Knex
  /** A book on the shared pool; no options gives the same one each time. */
  book(o?: Partial<KnexOrderBookOptions>): KnexOrderBook
  sale(o?: SaleOptions): Promise<Sale>
  rows(sale: Sale): Promise<readonly OrderDbRow[]>
  /** Reads one number, exactly. */
  count(table: string, where?: object): Promise<number>
  /** The invariants of protocol.md that the database alone can show. */
  sound(): Promise<void>
}

export interface OrderDbRow {
  readonly order_no: string
  readonly user_id: string
  readonly quantity: number | string
  readonly status: 'CONFIRMED' | 'PAID' | 'CLOSED'
  readonly reason: string | null
  readonly live_key: string | null
}

let sales = 0

export function makeKit(db: FreshDatabase): Kit {
  const { kind, knex } = db
  const shared = new KnexOrderBook({ knex })
  const count = async (table: string, where: object = {}) => {
    const [row] = await knex(table).where(where).count({ n: '*' })
    return Number(row?.n)
  }
  return {
    kind,
    db,
    knex,
    count,
    book: (o) => (o ? new KnexOrderBook({ knex, ...o }) : shared),
    rows: (sale) =>
      knex('seckill_order').where({ activity_id: sale.activityId }).orderBy('order_no'),
    sale: async (o = {}) => {
      const sale = newSale(o)
      if (o.prepared !== false) await shared.prepare(sale.activity)
      if (o.open) await new KnexActivityControl({ knex }).set(sale.activityId, 'open', AUDIT)
      return sale
    },
    sound: () => sound(knex),
  }
}

function newSale(o: SaleOptions): Sale {
  const activityId = `a${++sales}`
  const skus = Array.from({ length: o.skus ?? 1 }, (_, i) => ({
    skuId: `s${i + 1}`,
    units: o.units ?? 100,
    priceMinor: 990,
    currency: 'CNY',
  }))
  const now = Date.now()
  const activity: Activity = {
    activityId,
    version: 'v1',
    opensAt: now,
    endsAt: now + 3_600_000,
    payWithinMs: 900_000,
    mode: 'queued',
    tokens: 'off',
    maxPerOrder: o.maxPerOrder ?? 10,
    skus,
  }
  const reservation = (userId: string, r: Partial<Reservation> = {}): Reservation => ({
    orderNo: newOrderNo(),
    activityId,
    skuId: 's1',
    userId,
    quantity: 1,
    bucket: 0,
    version: 'v1',
    reservedAt: Date.now(),
    ...r,
  })
  let buyers = 0
  return {
    activity,
    activityId,
    ref: (sku = 1) => ({ activityId, skuId: `s${sku}` }),
    reservation,
    reservations: (count, r) => Array.from({ length: count }, () => reservation(`u${++buyers}`, r)),
  }
}

async function sound(knex: Knex): Promise<void> {
  const stocks = await knex('seckill_stock')
  const live: { activity_id: string; sku_id: string; units: unknown }[] = await knex(
    'seckill_order',
  )
    .whereIn('status', ['CONFIRMED', 'PAID'])
    .select('activity_id', 'sku_id')
    .sum({ units: 'quantity' })
    .groupBy('activity_id', 'sku_id')
  const liveOf = new Map(live.map((r) => [`${r.activity_id}|${r.sku_id}`, Number(r.units)]))
  for (const s of stocks) {
    const key = `${s.activity_id}|${s.sku_id}`
    const [total, available] = [Number(s.total), Number(s.available)]
    expect(available, `${key}: available = S - live`).toBe(total - (liveOf.get(key) ?? 0))
    expect(available, `${key}: never below zero`).toBeGreaterThanOrEqual(0)
    liveOf.delete(key)
  }
  expect([...liveOf.keys()], 'no live order without a stock row').toEqual([])
  const twice = await knex('seckill_order')
    .whereIn('status', ['CONFIRMED', 'PAID'])
    .select('activity_id', 'sku_id', 'user_id')
    .groupBy('activity_id', 'sku_id', 'user_id')
    .havingRaw('COUNT(*) > 1')
  expect(twice, 'one live order per buyer').toEqual([])
}

/** One database for a describe block, migrated; after each test its state must be sound. */
export function useKit(kind: DatabaseKind, o: { readonly poolMax?: number } = {}): Kit {
  let kit: Kit | undefined
  const there = () => {
    if (!kit) throw new Error('the kit is there once the tests run')
    return kit
  }
  beforeAll(async () => {
    const db = await freshDatabase(kind, o)
    await KnexOrderBook.migrate(db.knex)
    kit = makeKit(db)
  })
  afterEach(() => there().sound())
  afterAll(() => kit?.db.destroy())
  return {
    kind,
    get db() {
      return there().db
    },
    get knex() {
      return there().knex
    },
    book: (options) => there().book(options),
    sale: (options) => there().sale(options),
    rows: (sale) => there().rows(sale),
    count: (table, where) => there().count(table, where),
    sound: () => there().sound(),
  }
}

/** `{confirmed: 3, 'closed sold-out': 1}` of verdicts, or of whatever has a status. */
export function tally(
  outcomes: readonly { readonly status: string; readonly reason?: string | null }[],
): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status, reason } of outcomes) {
    const key = reason ? `${status} ${reason}` : status
    counts[key] = (counts[key] ?? 0) + 1
  }
  return counts
}

/** Runs `each` on the items, at most `width` at once. */
export async function inParallel<T, R>(
  width: number,
  items: readonly T[],
  each: (item: T) => Promise<R>,
): Promise<readonly R[]> {
  const results: R[] = []
  let next = 0
  const worker = async () => {
    while (next < items.length) {
      const i = next++
      results[i] = await each(items[i] as T)
    }
  }
  await Promise.all(Array.from({ length: width }, worker))
  return results
}
