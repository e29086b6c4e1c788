import { FlashSaleError } from '../../core/errors.js'
import type { OrderRow } from '../../core/order-book.js'
import type { StoredPayment } from '../../core/payment.js'
import type { Json } from '../../core/types.js'
import { ORDER_SELECT, orderRow } from '../order/rows.js'
import { type Column, exact } from '../sql/dialect.js'
import type { Tables } from '../sql/names.js'
import type { Row, Statements } from '../sql/statements.js'
import type { Tx } from '../sql/tx.js'

const text = (name: string): Column => ({ name, kind: 'text' })
const int = (name: string): Column => ({ name, kind: 'int' })

const COLUMNS: readonly Column[] = [
  text('payment_id'),
  text('channel'),
  text('channel_payment_id'),
  text('ask_key'),
  text('order_no'),
  text('activity_id'),
  text('sku_id'),
  text('user_id'),
  text('status'),
  text('reason'),
  int('amount_minor'),
  text('currency'),
  text('trade_no'),
  int('captured_minor'),
  int('refunding_minor'),
  int('refunded_minor'),
  text('paid_order_no'),
  text('cashier'),
  int('tries'),
  int('next_at'),
  int('created_at'),
  int('received_at'),
  int('updated_at'),
]
export const PAYMENT_SELECT = COLUMNS.map((c) => c.name).join(', ')

/** Later than any instant: nobody looks again by himself. */
export const NEVER = 9_000_000_000_000_000

/** A payment as its row has it. */
export interface PaymentRecord extends StoredPayment {
  /** Why it is an anomaly, or goes back. */
  readonly reason: string | null
  readonly tries: number
  readonly nextAt: number
  readonly receivedAt: number | null
}

const STATUSES = ['created', 'closed', 'received', 'anomaly', 'paid', 'refunding', 'refunded']

export function paymentRecord(row: Row): PaymentRecord {
  const status = String(row.status).toLowerCase()
  if (!STATUSES.includes(status))
    throw new FlashSaleError(
      'CORRUPT',
      `payment ${row.payment_id} has the status ${String(row.status).slice(0, 20)}`,
    )
  return {
    paymentId: row.payment_id as string,
    channel: row.channel as string,
    channelPaymentId: row.channel_payment_id as string,
    orderNo: row.order_no as string,
    activityId: row.activity_id as string,
    skuId: row.sku_id as string,
    userId: row.user_id as string,
    status: status as PaymentRecord['status'],
    reason: row.reason as string | null,
    amountMinor: exact(row.amount_minor, 'amount_minor'),
    currency: row.currency as string,
    tradeNo: row.trade_no as string | null,
    capturedMinor: exact(row.captured_minor, 'captured_minor'),
    refundingMinor: exact(row.refunding_minor, 'refunding_minor'),
    refundedMinor: exact(row.refunded_minor, 'refunded_minor'),
    paidOrderNo: row.paid_order_no as string | null,
    cashier: row.cashier === null ? null : (JSON.parse(row.cashier as string) as Json),
    tries: exact(row.tries, 'tries'),
    nextAt: exact(row.next_at, 'next_at'),
    receivedAt: row.received_at === null ? null : exact(row.received_at, 'received_at'),
  }
}

/** What the port shows of it. */
export function storedPayment(record: PaymentRecord): StoredPayment {
  const { reason: _, tries: __, nextAt: ___, receivedAt: ____, ...payment } = record
  return payment
}

export async function paymentsWhere(
  on: Statements,
  tables: Tables,
  where: string,
  bindings: readonly unknown[],
): Promise<readonly PaymentRecord[]> {
  const rows = await on.all(
    `SELECT ${PAYMENT_SELECT} FROM ${tables.payment} WHERE ${where}`,
    bindings,
  )
  return rows.map(paymentRecord)
}

export async function orderByNo(
  on: Statements,
  tables: Tables,
  orderNo: string,
): Promise<OrderRow | null> {
  return (await keyedOrder(on, tables, orderNo))?.order ?? null
}

/** The order, and what is unique of it while it lives. */
export async function keyedOrder(
  on: Statements,
  tables: Tables,
  orderNo: string,
): Promise<{ readonly order: OrderRow; readonly liveKey: unknown } | null> {
  const sql = `SELECT ${ORDER_SELECT}, live_key FROM ${tables.order} WHERE order_no = ?`
  const [row] = await on.all(sql, [orderNo])
  return row ? { order: orderRow(row), liveKey: row.live_key } : null
}

/** Columns by name, to be written. */
export type Values = Readonly<Record<string, string | number | null>>

export async function insertPayment(tx: Tx, tables: Tables, values: Values, now: number) {
  const row: Values = {
    ask_key: null,
    reason: null,
    trade_no: null,
    captured_minor: 0,
    refunding_minor: 0,
    refunded_minor: 0,
    paid_order_no: null,
    cashier: null,
    tries: 0,
    received_at: null,
    created_at: now,
    updated_at: now,
    ...values,
  }
  await tx.insert(tables.payment, COLUMNS, [COLUMNS.map((c) => row[c.name])])
}

/** Changes a payment that is still as it was read; else the unit is repeated from its first look. */
export async function changePayment(
  tx: Tx,
  tables: Tables,
  read: PaymentRecord,
  values: Values,
  now: number,
): Promise<void> {
  const names = Object.keys(values)
  const affected = await tx.run(
    `UPDATE ${tables.payment} SET ${names.map((name) => `${name} = ?`).join(', ')}, updated_at = ?
     WHERE payment_id = ? AND status = ? AND tries = ? AND refunding_minor = ? AND refunded_minor = ?`,
    [
      ...Object.values(values),
      now,
      read.paymentId,
      read.status.toUpperCase(),
      read.tries,
      read.refundingMinor,
      read.refundedMinor,
    ],
  )
  if (affected !== 1) tx.conflict(`payment ${read.paymentId} was changed meanwhile`)
}
