import type { OrderRow } from '../../core/ports.js'
import type { SkuRef } from '../../core/types.js'
import type { Database } from '../sql/database.js'
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

/** Page by page inside one transaction: bounded memory on every driver, and no cursor to leave open. */
export function snapshot(database: Database, ref: SkuRef): AsyncGenerator<OrderRow> {
  return database.view(async function* (on) {
    for (let after = ''; ; ) {
      const rows = await on.all(
        `SELECT ${ORDER_SELECT} FROM ${database.tables.order} WHERE activity_id = ? AND sku_id = ? AND order_no > ? ORDER BY order_no LIMIT ${PAGE}`,
        [ref.activityId, ref.skuId, after],
      )
      for (const row of rows) yield orderRow(row)
      if (rows.length < PAGE) return
      after = rows[PAGE - 1]?.order_no as string
    }
  })
}
