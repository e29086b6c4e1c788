import type { OrderBook, OrderRow } from '../core/order-book.js'
import { orderNoMadeAt } from '../core/order-no.js'
import type { OrderResult, SkuRef } from '../core/types.js'
import type { StockBucket } from '../stock/stock-bucket.js'

interface Asked extends SkuRef {
  readonly userId: string
  readonly orderNo: string | undefined
}

/**
 * Redis answers first: while it holds a reservation only the database knows whether it is confirmed by now, of a paid order
 * whether its money went back, and when Redis is away, or not warmed (any more), the database answers by buyer.
 */
export async function resultOf(
  stock: StockBucket,
  orders: OrderBook,
  asked: Asked,
  graceMs: number,
): Promise<OrderResult> {
  const record = await stock.reservation(asked, asked.userId).catch(() => 'not-warmed' as const)
  if (record === 'not-warmed') {
    const row = await orders.findByBuyer(asked, asked.userId)
    if (row && (asked.orderNo === undefined || row.orderNo === asked.orderNo)) return ofRow(row)
    return asked.orderNo === undefined
      ? { status: 'none' }
      : ofNumber(orders, asked, asked.orderNo, null)
  }
  const named =
    record !== 'none' && (asked.orderNo === undefined || record.orderNo === asked.orderNo)
  if (!named)
    return asked.orderNo === undefined
      ? { status: 'none' }
      : ofNumber(orders, asked, asked.orderNo, graceMs)
  const { orderNo, state } = record
  switch (state) {
    case 'held': {
      const [row] = await orders.find([orderNo])
      return row ? ofRow(row) : { status: 'queued', orderNo }
    }
    case 'confirmed':
      return { status: state, orderNo }
    case 'paid': {
      // A refund closes the order in the database only: its units stay sold in Redis.
      const [row] = await orders.find([orderNo]).catch(() => [])
      return row ? ofRow(row) : { status: state, orderNo }
    }
    case 'released':
      return { status: 'closed', orderNo, reason: record.reason ?? 'released' }
    default:
      return state satisfies never
  }
}

/**
 * A number that Redis does not hold for this buyer. If the database does not know it either once it may no longer appear,
 * it gets a CLOSED row, so that a message that turns up after all finds it decided.
 */
async function ofNumber(
  orders: OrderBook,
  asked: Asked,
  orderNo: string,
  graceMs: number | null,
): Promise<OrderResult> {
  const [row] = await orders.find([orderNo])
  // Another buyer's number is no number of his.
  if (row)
    return row.userId === asked.userId && row.skuId === asked.skuId
      ? ofRow(row)
      : { status: 'none' }
  const madeAt = orderNoMadeAt(orderNo)
  if (graceMs === null || madeAt === null || madeAt + graceMs > Date.now())
    return { status: 'none' }
  const { activityId, skuId, userId } = asked
  const reservation = {
    orderNo,
    activityId,
    skuId,
    userId,
    quantity: 1,
    bucket: 0,
    version: 'unknown',
    reservedAt: madeAt,
  }
  const [verdict] = await orders.closeUnbooked([reservation], 'never-appeared')
  return verdict?.status === 'closed'
    ? { status: 'closed', orderNo, reason: verdict.reason }
    : { status: 'none' }
}

function ofRow(row: OrderRow): OrderResult {
  const { status, orderNo } = row
  return status === 'closed'
    ? { status, orderNo, reason: row.reason ?? 'closed' }
    : { status, orderNo }
}
