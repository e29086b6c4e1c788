import type { DuePayment, OverdueOrder } from '../../core/payment.js'
import { ORDER_SELECT, orderRow } from '../order/rows.js'
import type { Database } from '../sql/database.js'
import { exact } from '../sql/dialect.js'
import { NEVER, PAYMENT_SELECT, paymentRecord, storedPayment } from './rows.js'

/** The channel is still to say whether it has the money. */
const ASKABLE =
  "(status = 'CREATED' OR (status = 'ANOMALY' AND refunding_minor = 0 AND captured_minor > 0))"

/** Each is leased by putting its next time ahead. */
export function takePayments(
  database: Database,
  o: { readonly limit: number; readonly leaseMs: number },
): Promise<readonly DuePayment[]> {
  const { tables } = database
  return database.write(async (tx) => {
    const now = await tx.now()
    const rows = await tx.all(
      `SELECT ${PAYMENT_SELECT} FROM ${tables.payment} WHERE status IN ('CREATED', 'RECEIVED', 'ANOMALY') AND next_at <= ? ORDER BY next_at, payment_id LIMIT ${o.limit}${tx.dialect.skipLocked}`,
      [now],
    )
    const due = rows.map(paymentRecord)
    await tx.runIn(
      `UPDATE ${tables.payment} SET tries = tries + 1, next_at = ? WHERE payment_id IN (??)`,
      [now + o.leaseMs],
      due.map((p) => p.paymentId),
    )
    const orders = await tx.allIn(
      `SELECT ${ORDER_SELECT} FROM ${tables.order} WHERE order_no IN (??)`,
      due.map((p) => p.orderNo),
    )
    const byNumber = new Map(orders.map((row) => [row.order_no as string, orderRow(row)]))
    return due.map((p): DuePayment => {
      const order = byNumber.get(p.orderNo) ?? null
      return {
        payment: storedPayment(p),
        tries: p.tries + 1,
        order,
        payable: order?.status === 'confirmed' && order.payBy > now,
        heldMs: p.receivedAt === null ? 0 : now - p.receivedAt,
      }
    })
  })
}

export async function putOff(
  database: Database,
  paymentId: string,
  tries: number,
  afterMs: number | null,
): Promise<void> {
  await database.write(async (tx) => {
    const next = afterMs === null ? NEVER : (await tx.now()) + afterMs
    await tx.run(
      `UPDATE ${database.tables.payment} SET next_at = ? WHERE payment_id = ? AND tries = ? AND status IN ('CREATED', 'RECEIVED', 'ANOMALY')`,
      [next, paymentId, tries],
    )
  })
}

export async function hasten(database: Database, orderNos: readonly string[]): Promise<void> {
  await database.write((tx) =>
    tx.runIn(
      `UPDATE ${database.tables.payment} SET next_at = 0 WHERE ${ASKABLE} AND order_no IN (??)`,
      [],
      orderNos,
    ),
  )
}

export function overdueOrders(
  database: Database,
  limit: number,
  after: Pick<OverdueOrder, 'payBy' | 'orderNo'> = { payBy: 0, orderNo: '' },
): Promise<readonly OverdueOrder[]> {
  const { tables } = database
  const { payBy, orderNo } = after
  return database.read(async (on) => {
    const { now } = on.dialect
    const orders = await on.all(
      `SELECT order_no, pay_by, ${now} - pay_by AS late_ms FROM ${tables.order} WHERE status = 'CONFIRMED' AND pay_by <= ${now} AND pay_by >= ? AND (pay_by > ? OR order_no > ?) ORDER BY pay_by, order_no LIMIT ${limit}`,
      [payBy, payBy, orderNo],
    )
    const rows = await on.allIn(
      `SELECT ${PAYMENT_SELECT} FROM ${tables.payment} WHERE (status = 'RECEIVED' OR ${ASKABLE}) AND order_no IN (??)`,
      orders.map((row) => row.order_no as string),
    )
    const payments = rows.map(paymentRecord).map(storedPayment)
    return orders.map((row) => ({
      orderNo: row.order_no as string,
      payBy: exact(row.pay_by, 'pay_by'),
      lateMs: exact(row.late_ms, 'late_ms'),
      payments: payments.filter((p) => p.orderNo === row.order_no),
    }))
  })
}
