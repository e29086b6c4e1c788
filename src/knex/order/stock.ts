import { MAX_UNITS } from '../../core/check.js'
import { FlashSaleError } from '../../core/errors.js'
import type { OrderBook, PreparedNumbers } from '../../core/order-book.js'
import type { Activity, Audit, DbNumbers, SkuRef } from '../../core/types.js'
import { Act } from '../activity/audit.js'
import type { Database } from '../sql/database.js'
import { type Column, exact } from '../sql/dialect.js'
import type { Statements } from '../sql/statements.js'
import type { Tx } from '../sql/tx.js'
import { HOLDS_UNITS, skuKeyOf } from './rows.js'
import { readStocks, type Stock } from './stock-rows.js'

const text = (name: string): Column => ({ name, kind: 'text' })
const int = (name: string): Column => ({ name, kind: 'int' })
const COLUMNS: readonly Column[] = [
  text('activity_id'),
  text('sku_id'),
  text('version'),
  int('total'),
  int('available'),
  int('price_minor'),
  text('currency'),
  int('pay_within_ms'),
  int('max_per_order'),
  int('updated_at'),
]

/** Inserts the rows that are missing, and replaces the terms of another version that never sold. */
export function prepare(
  database: Database,
  activity: Activity,
): Promise<readonly PreparedNumbers[]> {
  const { tables } = database
  const wanted = activity.skus.map((sku): Stock => termsOf(activity, sku))
  return database.write(async (tx) => {
    const { now, stocks } = await readStocks(tx, tables.stock, wanted, '')
    const missing = wanted.filter((stock) => !stocks.has(skuKeyOf(stock)))
    // Two who prepare at once meet in the primary key, and the later repeats and finds the rows.
    await tx.insert(
      tables.stock,
      COLUMNS,
      missing.map((s) => [...values(s), now]),
    )
    for (const terms of wanted) {
      const stock = stocks.get(skuKeyOf(terms))
      if (stock && stock.version !== terms.version)
        await replace(tx, tables.stock, stock, terms, now)
      else if (stock) sameTerms(stock, terms)
    }
    const numbers: PreparedNumbers[] = []
    for (const ref of wanted) numbers.push(await readPrepared(tx, tables, ref))
    return numbers
  })
}

function termsOf(activity: Activity, sku: Activity['skus'][number]): Stock {
  return {
    activityId: activity.activityId,
    skuId: sku.skuId,
    version: activity.version,
    total: sku.units,
    available: sku.units,
    rowVersion: 0,
    priceMinor: sku.priceMinor,
    currency: sku.currency,
    payWithinMs: activity.payWithinMs,
    maxPerOrder: activity.maxPerOrder,
  }
}

function values(s: Stock): readonly unknown[] {
  return [
    s.activityId,
    s.skuId,
    s.version,
    s.total,
    s.available,
    s.priceMinor,
    s.currency,
    s.payWithinMs,
    s.maxPerOrder,
  ]
}

/** `available = total` is the proof that no order of the old version lives. */
async function replace(
  tx: Tx,
  table: string,
  old: Stock,
  terms: Stock,
  now: number,
): Promise<void> {
  const affected = await tx.run(
    `UPDATE ${table} SET version = ?, total = ?, available = ?, price_minor = ?, currency = ?, pay_within_ms = ?, max_per_order = ?, row_version = row_version + 1, updated_at = ?
     WHERE activity_id = ? AND sku_id = ? AND version = ? AND available = total`,
    [...values(terms).slice(2), now, old.activityId, old.skuId, old.version],
  )
  if (affected === 1) return
  throw new FlashSaleError(
    'BAD_INPUT',
    `${terms.activityId} ${terms.skuId} has live orders of version ${old.version}: version ${terms.version} cannot replace it, nothing was written`,
  )
}

/** Units may differ, by top-ups. What an order is priced by may not: it would be priced by the old terms in silence. */
function sameTerms(stock: Stock, terms: Stock): void {
  for (const name of ['priceMinor', 'currency', 'payWithinMs', 'maxPerOrder'] as const)
    if (stock[name] !== terms[name])
      throw new FlashSaleError(
        'BAD_INPUT',
        `${terms.activityId} ${terms.skuId} was prepared with ${name} ${stock[name]}: other terms (${terms[name]}) need another version, nothing was written`,
      )
}

/** Read in one statement, so that the two numbers are of one moment. */
export async function readNumbers(
  on: Statements,
  tables: { readonly stock: string; readonly order: string },
  ref: SkuRef,
): Promise<DbNumbers | null> {
  const [row] = await on.all(
    `SELECT s.total, s.available, (SELECT COALESCE(SUM(o.quantity), 0) FROM ${tables.order} o WHERE o.activity_id = s.activity_id AND o.sku_id = s.sku_id AND ${HOLDS_UNITS}) AS live
     FROM ${tables.stock} s WHERE s.activity_id = ? AND s.sku_id = ?`,
    [ref.activityId, ref.skuId],
  )
  if (!row) return null
  return {
    activityId: ref.activityId,
    skuId: ref.skuId,
    total: exact(row.total, 'total'),
    available: exact(row.available, 'available'),
    live: exact(row.live, 'live'),
  }
}

/** A top-up between the two statements is in the total of the second, with its operation. */
async function readPrepared(
  on: Statements,
  tables: { readonly stock: string; readonly order: string; readonly topUp: string },
  ref: SkuRef,
): Promise<PreparedNumbers> {
  const numbers = (await readNumbers(on, tables, ref)) as DbNumbers
  const { total, operations } = (await readTopUps(on, tables, ref)) as TopUps
  const available = numbers.available + total - numbers.total
  return { ...numbers, total, available, topUps: operations }
}

type TopUps = NonNullable<Awaited<ReturnType<OrderBook['topUps']>>>

/** Read in one statement, so that the total is the one with these operations in it. */
export async function readTopUps(
  on: Statements,
  tables: { readonly stock: string; readonly topUp: string },
  ref: SkuRef,
): Promise<Awaited<ReturnType<OrderBook['topUps']>>> {
  const rows = await on.all(
    `SELECT s.total, t.operation_id, t.units FROM ${tables.stock} s
     LEFT JOIN ${tables.topUp} t ON t.activity_id = s.activity_id AND t.sku_id = s.sku_id
     WHERE s.activity_id = ? AND s.sku_id = ?`,
    [ref.activityId, ref.skuId],
  )
  const [first] = rows
  if (!first) return null
  const operations = rows
    .filter((row) => row.operation_id !== null)
    .map((row) => ({
      operationId: row.operation_id as string,
      units: exact(row.units, 'units'),
    }))
  return { total: exact(first.total, 'total'), operations }
}

/** The operation's row first: its primary key is what makes the units come once. */
export function topUp(
  database: Database,
  ref: SkuRef,
  units: number,
  operationId: string,
  audit: Audit,
): Promise<DbNumbers> {
  const { tables } = database
  const act = new Act(tables.audit, { act: 'top-up', activityId: ref.activityId, audit })
  return database.write(async (tx) => {
    const now = await tx.now()
    const [done] = await tx.all(
      `SELECT activity_id, sku_id, units FROM ${tables.topUp} WHERE operation_id = ?`,
      [operationId],
    )
    const before = await readNumbers(tx, tables, ref)
    if (!before) refuse(`${ref.activityId} ${ref.skuId} has no stock row: prepare it first`)
    if (done) {
      const same =
        done.activity_id === ref.activityId &&
        done.sku_id === ref.skuId &&
        exact(done.units, 'units') === units
      if (!same) refuse(`operation ${operationId} was another top-up`)
      return before
    }
    await tx.insert(
      tables.topUp,
      [text('operation_id'), text('activity_id'), text('sku_id'), int('units'), int('at')],
      [[operationId, ref.activityId, ref.skuId, units, now]],
    )
    const affected = await tx.run(
      `UPDATE ${tables.stock} SET total = total + ?, available = available + ?, row_version = row_version + 1, updated_at = ?
       WHERE activity_id = ? AND sku_id = ? AND available + ? >= 0 AND total + ? <= ${MAX_UNITS}`,
      [units, units, now, ref.activityId, ref.skuId, units, units],
    )
    const { stocks } = await readStocks(tx, tables.stock, [ref], '')
    const { total, available } = stocks.get(skuKeyOf(ref)) as Stock
    if (affected !== 1)
      refuse(
        units < 0
          ? `cannot withdraw ${-units} units: ${available} are available`
          : `cannot add ${units} units to ${total}: ${MAX_UNITS} are the most`,
      )
    // The orders were summed before the hot row was locked; what they did not explain then, they do not explain now.
    const unexplained = before.total - before.available - before.live
    const after: DbNumbers = { ...before, total, available, live: total - available - unexplained }
    await act.record(tx, now, before, { ...after, operationId, units })
    return after
  })
}

/** Thrown inside the transaction, which is thereby rolled back. */
function refuse(why: string): never {
  throw new FlashSaleError('BAD_INPUT', `${why}; nothing was written`)
}
