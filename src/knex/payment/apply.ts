import type { OrderRow } from '../../core/order-book.js'
import type { Captured } from '../../core/payment.js'
import type { Order } from '../order/hooks.js'
import { type OnePer, orderOf } from '../order/rows.js'
import type { Database } from '../sql/database.js'
import type { Tx } from '../sql/tx.js'
import type { PaymentHooks } from './hooks.js'
import { type Reserved, reserveLate } from './late.js'
import { type PaymentRecord, paymentsWhere, storedPayment, type Values } from './rows.js'

export interface CaptureParts {
  readonly database: Database
  readonly hooks: PaymentHooks
  readonly onePer: OnePer
}

type Write = (values: Values) => Promise<PaymentRecord>

/** CONFIRMED becomes PAID: the payment's row first, then the order's, by a conditional UPDATE that a close may win. */
export async function apply(
  tx: Tx,
  parts: CaptureParts,
  o: { readonly write: Write; readonly order: OrderRow; readonly now: number },
): Promise<Captured> {
  const { tables } = parts.database
  const { order, now } = o
  const payment = await o.write(paidFor(order.orderNo))
  const affected = await tx.run(
    `UPDATE ${tables.order} SET status = 'PAID', updated_at = ? WHERE order_no = ? AND status = 'CONFIRMED'`,
    [now, order.orderNo],
  )
  if (affected !== 1) tx.conflict(`order ${order.orderNo} was paid or closed meanwhile`)
  await tellHost(tx, parts, orderOf(order), payment, null)
  return {
    status: 'applied',
    payment: storedPayment(payment),
    order: { ...order, status: 'paid' },
    fresh: true,
    late: false,
  }
}

/** The order is closed for good: the money buys a new one, unless there are no units for it. */
export async function applyLate(
  tx: Tx,
  parts: CaptureParts,
  o: {
    readonly write: Write
    readonly closed: OrderRow
    readonly newOrderNo: string
    readonly now: number
  },
): Promise<Captured | Extract<Reserved, { refused: string }>> {
  const reserved = await reserveLate(tx, parts, o.closed, o.newOrderNo, o.now)
  if ('refused' in reserved) return reserved
  const { order } = reserved
  const payment = await o.write(paidFor(order.orderNo))
  await reserved.insert()
  await tellHost(tx, parts, order, payment, o.closed.orderNo)
  await reserved.take()
  return {
    status: 'applied',
    payment: storedPayment(payment),
    order: { ...order, status: 'paid', reason: null },
    fresh: true,
    late: true,
  }
}

const paidFor = (orderNo: string): Values => ({
  status: 'PAID',
  reason: null,
  paid_order_no: orderNo,
  next_at: 0,
})

/** A hook that swallows a deadlock goes on without its transaction: then what was written before it is gone. */
async function tellHost(
  tx: Tx,
  parts: CaptureParts,
  order: Order,
  payment: PaymentRecord,
  insteadOf: string | null,
): Promise<void> {
  const { onPaid } = parts.hooks
  if (!onPaid) return
  const { paymentId, channel, tradeNo } = payment
  const told = { paymentId, channel, tradeNo: tradeNo as string, insteadOf }
  await tx.hook((trx) => onPaid(trx, order, told))
  const [still] = await paymentsWhere(tx, parts.database.tables, 'payment_id = ?', [paymentId])
  if (still?.status !== 'paid') tx.conflict('the transaction was lost in a hook')
}
