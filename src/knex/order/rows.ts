import { FlashSaleError } from '../../core/errors.js'
import type { OrderRow } from '../../core/order-book.js'
import { REFUNDED } from '../../core/standing.js'
import type { Json, Reservation, SkuRef } from '../../core/types.js'
import { type Column, exact } from '../sql/dialect.js'
import type { Row } from '../sql/statements.js'
import type { Order } from './hooks.js'

/** One live order per buyer and SKU, or per buyer and activity. */
export type OnePer = 'activity+sku' | 'activity'

/** `|` occurs in no id; two parts and three cannot be mistaken for each other. */
export function liveKeyOf(r: SkuRef & { readonly userId: string }, onePer: OnePer): string {
  return onePer === 'activity'
    ? `${r.activityId}|${r.userId}`
    : `${r.activityId}|${r.skuId}|${r.userId}`
}

export function skuKeyOf(ref: SkuRef): string {
  return `${ref.activityId}|${ref.skuId}`
}

const text = (name: string): Column => ({ name, kind: 'text' })
const int = (name: string): Column => ({ name, kind: 'int' })

const ORDER_COLUMNS: readonly Column[] = [
  text('order_no'),
  text('activity_id'),
  text('sku_id'),
  text('user_id'),
  int('quantity'),
  int('bucket'),
  text('version'),
  text('status'),
  text('reason'),
  int('amount_minor'),
  text('currency'),
  int('pay_by'),
  text('payload'),
  text('live_key'),
  int('reserved_at'),
  int('created_at'),
  int('updated_at'),
]

/** What {@link orderRow} reads. */
export const ORDER_SELECT =
  'order_no, activity_id, sku_id, user_id, quantity, bucket, version, status, reason, amount_minor, currency, pay_by, payload, reserved_at'

/** A row to insert: confirmed or paid under its live key, or closed with a reason and without one. */
export type NewRow =
  | { readonly order: Order; readonly liveKey: string; readonly paid?: true }
  | { readonly order: Order; readonly reason: string }

/** In order of number: two transactions that insert the same numbers then meet at the first, not in a deadlock. */
export function orderInsert(rows: readonly NewRow[], now: number) {
  const sorted = [...rows].sort((a, b) => (a.order.orderNo < b.order.orderNo ? -1 : 1))
  return {
    columns: ORDER_COLUMNS,
    values: sorted.map((row) => {
      const { order } = row
      const closed = 'reason' in row
      return [
        order.orderNo,
        order.activityId,
        order.skuId,
        order.userId,
        order.quantity,
        order.bucket,
        order.version,
        closed ? 'CLOSED' : row.paid ? 'PAID' : 'CONFIRMED',
        closed ? row.reason : null,
        order.amountMinor,
        order.currency,
        order.payBy,
        order.payload === undefined ? null : JSON.stringify(order.payload),
        closed ? null : row.liveKey,
        order.reservedAt,
        now,
        now,
      ]
    }),
  }
}

/** In SQL, of a row `o`: its units are not available. Those of a refunded order stay sold until the host puts them on sale. */
export const HOLDS_UNITS = `(o.status IN ('CONFIRMED', 'PAID') OR o.reason = '${REFUNDED}')`

const STATUS = { CONFIRMED: 'confirmed', PAID: 'paid', CLOSED: 'closed' } as const

export function statusOf(row: Row): OrderRow['status'] {
  const status = STATUS[row.status as keyof typeof STATUS]
  if (status) return status
  throw new FlashSaleError('CORRUPT', `order ${row.order_no} has the status ${row.status}`)
}

export function orderRow(row: Row): OrderRow {
  const payload = row.payload === null ? {} : { payload: JSON.parse(row.payload as string) as Json }
  return {
    orderNo: row.order_no as string,
    activityId: row.activity_id as string,
    skuId: row.sku_id as string,
    userId: row.user_id as string,
    quantity: exact(row.quantity, 'quantity'),
    bucket: exact(row.bucket, 'bucket'),
    version: row.version as string,
    reservedAt: exact(row.reserved_at, 'reserved_at'),
    ...payload,
    status: statusOf(row),
    reason: row.reason as string | null,
    amountMinor: exact(row.amount_minor, 'amount_minor'),
    currency: row.currency as string,
    payBy: exact(row.pay_by, 'pay_by'),
  }
}

/** A row as a hook sees it. */
export function orderOf({ status: _, reason: __, ...order }: OrderRow): Order {
  return order
}

/** What is needed of an order to give its units back. The payload stays in the order row. */
export function bareReservation(r: Reservation): Reservation {
  const { orderNo, activityId, skuId, userId, quantity, bucket, version, reservedAt } = r
  return { orderNo, activityId, skuId, userId, quantity, bucket, version, reservedAt }
}
