import type { PaymentRow } from '../../core/reconcile.js'
import type { SkuRef } from '../../core/types.js'
import type { Database } from '../sql/database.js'
import { PAYMENT_SELECT, paymentRecord, storedPayment } from './rows.js'

const PAGE = 1_000

/** Page by page inside one transaction, like the orders'. */
export function snapshot(database: Database, ref: SkuRef): AsyncGenerator<PaymentRow> {
  return database.view(async function* (on) {
    let after = ['', '']
    for (;;) {
      const [orderNo, paymentId] = after
      const rows = await on.all(
        `SELECT ${PAYMENT_SELECT} FROM ${database.tables.payment} WHERE activity_id = ? AND sku_id = ? AND (order_no > ? OR (order_no = ? AND payment_id > ?)) ORDER BY order_no, payment_id LIMIT ${PAGE}`,
        [ref.activityId, ref.skuId, orderNo, orderNo, paymentId],
      )
      for (const row of rows) yield storedPayment(paymentRecord(row))
      const last = rows.at(-1)
      if (!last || rows.length < PAGE) return
      after = [last.order_no as string, last.payment_id as string]
    }
  })
}

/** Those made for, or that paid, one of the orders; each once. */
export async function findPayments(
  database: Database,
  orderNos: readonly string[],
): Promise<readonly PaymentRow[]> {
  const { payment } = database.tables
  const rows = await database.read((on) =>
    on.allIn(
      `SELECT ${PAYMENT_SELECT} FROM ${payment} WHERE order_no IN (??) UNION SELECT ${PAYMENT_SELECT} FROM ${payment} WHERE paid_order_no IN (??)`,
      orderNos,
      orderNos,
    ),
  )
  const byId = new Map(rows.map((row) => [row.payment_id as string, row]))
  return [...byId.values()].map(paymentRecord).map(storedPayment)
}
