import { FlashSaleError } from '../../core/errors.js'
import type { OrderRow } from '../../core/order-book.js'
import type { SkuRef } from '../../core/types.js'
import type { Database } from '../sql/database.js'
import type { Row, Statements } from '../sql/statements.js'
import { ORDER_SELECT, orderRow } from './rows.js'

const PAGE = 1_000

/** In the order asked for; numbers without a row are left out. */
export async function find(
  database: Database,
  orderNos: readonly string[],
): Promise<readonly OrderRow[]> {
  if (orderNos.length === 0) return []
  const sql = `SELECT ${ORDER_SELECT} FROM ${database.tables.order} WHERE order_no IN (??)`
  const rows = await database.read((on) => on.allIn(sql, orderNos))
  const byNumber = new Map(rows.map((row) => [row.order_no as string, orderRow(row)]))
  return orderNos.flatMap((orderNo) => byNumber.get(orderNo) ?? [])
}

export async function findByBuyer(
  database: Database,
  ref: SkuRef,
  userId: string,
): Promise<OrderRow | null> {
  const [row] = await database.read((on) =>
    on.all(
      `SELECT ${ORDER_SELECT} FROM ${database.tables.order} WHERE activity_id = ? AND sku_id = ? AND user_id = ?
       ORDER BY CASE WHEN live_key IS NULL THEN 1 ELSE 0 END, created_at DESC, order_no DESC LIMIT 1`,
      [ref.activityId, ref.skuId, userId],
    ),
  )
  return row ? orderRow(row) : null
}

/** Numbers of confirmed orders whose deadline of payment has passed by the database's clock, the longest overdue first. */
export async function overdue(database: Database, limit: number): Promise<readonly string[]> {
  const rows = await database.read((on) =>
    on.all(
      `SELECT order_no FROM ${database.tables.order} WHERE status = 'CONFIRMED' AND pay_by <= ${on.dialect.now} ORDER BY pay_by LIMIT ${limit}`,
    ),
  )
  return rows.map((row) => row.order_no as string)
}

/**
 * Page by page inside one transaction: bounded memory on every driver, and no cursor to leave open. The next page is on
 * its way while the one before it is read.
 */
export function snapshot(database: Database, ref: SkuRef, from = ''): AsyncGenerator<OrderRow> {
  const { order } = database.tables
  const byIndex = database.dialect.byIndex(`${order}_by_sku`)
  const sql = `SELECT ${ORDER_SELECT} FROM ${order}${byIndex} WHERE activity_id = ? AND sku_id = ? AND order_no > ? ORDER BY order_no LIMIT ${PAGE}`
  return database.view(async function* (on) {
    await primary(on)
    const page = (after: string) => {
      const rows = on.all(sql, [ref.activityId, ref.skuId, after])
      rows.catch(() => undefined) // heard when it is awaited, which may be later
      return rows
    }
    let coming: ReturnType<typeof page> | null = page(from)
    try {
      while (coming) {
        const rows: readonly Row[] = await coming
        const last = rows.length < PAGE ? undefined : rows[PAGE - 1]
        coming = last ? page(last.order_no as string) : null
        for (const row of rows) yield orderRow(row)
      }
    } finally {
      // The connection goes back only when nothing runs on it any more.
      await coming?.catch(() => undefined)
    }
  })
}

/** A replica that lags shows orders as missing, and closed ones as alive. */
async function primary(on: Statements): Promise<void> {
  const [row] = await on.all(`SELECT ${on.dialect.readOnly} AS read_only`)
  if (row?.read_only === true || Number(row?.read_only) > 0)
    throw new FlashSaleError(
      'DB_UNAVAILABLE',
      'this server takes no writes: orders are compared on the primary, never on a replica',
    )
}
