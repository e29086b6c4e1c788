import { FlashSaleError } from '../../core/errors.js'
import type { SkuRef } from '../../core/types.js'
import { exact } from '../sql/dialect.js'
import type { Row, Statements } from '../sql/statements.js'
import type { Tx } from '../sql/tx.js'
import { skuKeyOf } from './rows.js'

/** `conditional`: `available >= n` decides. `optimistic`: in addition nobody may have touched the row since it was read. */
export type StockUpdate = 'conditional' | 'optimistic'

export interface Stock extends SkuRef {
  readonly version: string
  readonly total: number
  readonly available: number
  readonly rowVersion: number
  readonly priceMinor: number
  readonly currency: string
  readonly payWithinMs: number
  readonly maxPerOrder: number
}

/** More pairs in one OR do not get an index everywhere. */
const PAIRS_A_STATEMENT = 100

/** The stock rows of some SKUs by {@link skuKeyOf}, in sorted order so that locks are taken in the same order by all. */
export async function readStocks(
  on: Statements,
  table: string,
  refs: readonly SkuRef[],
  lock: string,
): Promise<{ readonly now: number; readonly stocks: ReadonlyMap<string, Stock> }> {
  const distinct = [...new Map(refs.map((ref) => [skuKeyOf(ref), ref])).entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, ref]) => ref)
  const stocks = new Map<string, Stock>()
  let now: number | undefined
  for (let i = 0; i < distinct.length; i += PAIRS_A_STATEMENT) {
    const part = distinct.slice(i, i + PAIRS_A_STATEMENT)
    const pairs = part.map(() => '(activity_id = ? AND sku_id = ?)').join(' OR ')
    const rows = await on.all(
      `SELECT ${on.dialect.now} AS now_ms, activity_id, sku_id, version, total, available, row_version, price_minor, currency, pay_within_ms, max_per_order
       FROM ${table} WHERE ${pairs} ORDER BY activity_id, sku_id${lock}`,
      part.flatMap((ref) => [ref.activityId, ref.skuId]),
    )
    for (const row of rows) {
      now ??= Number(row.now_ms)
      const stock = stockOf(row)
      stocks.set(skuKeyOf(stock), stock)
    }
  }
  return { now: now ?? (await on.now()), stocks }
}

function stockOf(row: Row): Stock {
  return {
    activityId: row.activity_id as string,
    skuId: row.sku_id as string,
    version: row.version as string,
    total: exact(row.total, 'total'),
    available: exact(row.available, 'available'),
    rowVersion: exact(row.row_version, 'row_version'),
    priceMinor: exact(row.price_minor, 'price_minor'),
    currency: row.currency as string,
    payWithinMs: exact(row.pay_within_ms, 'pay_within_ms'),
    maxPerOrder: exact(row.max_per_order, 'max_per_order'),
  }
}

/** Takes units from a stock row; false when they are not there any more, or the row is another than was read. */
export async function takeUnits(
  tx: Tx,
  tables: { readonly stock: string; readonly order: string },
  o: {
    readonly stock: Stock
    readonly units: number
    readonly now: number
    readonly how: StockUpdate
    /** One of the orders that take the units, and the status it was given. */
    readonly witness: string
    readonly witnessStatus?: 'CONFIRMED' | 'PAID'
  },
): Promise<boolean> {
  const { stock, units, now, how, witness, witnessStatus = 'CONFIRMED' } = o
  const conditions = ['activity_id = ?', 'sku_id = ?', 'version = ?', 'available >= ?']
  const bindings: unknown[] = [units, now, stock.activityId, stock.skuId, stock.version, units]
  if (how === 'optimistic') {
    conditions.push('row_version = ?')
    bindings.push(stock.rowVersion)
  }
  const affected = await tx.run(
    `UPDATE ${tables.stock} SET available = available - ?, row_version = row_version + 1, updated_at = ? WHERE ${conditions.join(' AND ')}${witnessed(tx, tables.order, witnessStatus)}`,
    tx.hookRan ? [...bindings, witness] : bindings,
  )
  return affected === 1
}

/** Puts the units of closed orders back. `witness` is one of them. */
export async function returnUnits(
  tx: Tx,
  tables: { readonly stock: string; readonly order: string },
  o: {
    readonly ref: SkuRef
    readonly units: number
    readonly now: number
    readonly witness: string
  },
): Promise<void> {
  const { ref, units, now } = o
  const affected = await tx.run(
    `UPDATE ${tables.stock} SET available = available + ?, row_version = row_version + 1, updated_at = ? WHERE activity_id = ? AND sku_id = ? AND available + ? <= total${witnessed(tx, tables.order, 'CLOSED')}`,
    [units, now, ref.activityId, ref.skuId, units, ...(tx.hookRan ? [o.witness] : [])],
  )
  if (affected === 1) return
  if (tx.hookRan && !tx.afterConflict) tx.conflict('the transaction was lost in a hook')
  throw new FlashSaleError(
    'CORRUPT',
    `the stock row of ${ref.activityId} ${ref.skuId} has no room for ${units} units of its closed orders`,
  )
}

/**
 * A hook that swallows a deadlock goes on without its transaction, and so would we: what was written is gone, and the
 * stock row alone would change. Hence, after a hook, it changes only if one of the orders is seen as we left it.
 */
function witnessed(tx: Tx, order: string, status: 'CONFIRMED' | 'PAID' | 'CLOSED'): string {
  return tx.hookRan
    ? ` AND EXISTS (SELECT 1 FROM ${order} WHERE order_no = ? AND status = '${status}')`
    : ''
}
