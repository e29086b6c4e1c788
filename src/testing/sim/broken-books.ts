import { FlashSaleError } from '../../core/errors.js'
import type { OrderBook, Verdict } from '../../core/order-book.js'
import type { PaymentBook } from '../../core/payment.js'
import type { Reservation } from '../../core/types.js'
import { UNPAID } from '../../core/unpaid.js'
import type { Own } from './options.js'
import type { RedisStore } from './redis-store.js'

type BrokenOrders = (orders: OrderBook, own: Own) => OrderBook

/** Says CLOSED without writing a row, for closings of this reason and at least so many numbers. */
export const withoutRow =
  (why: string, least = 1) =>
  (orders: OrderBook): OrderBook => ({
    ...orders,
    closeUnbooked: async (reservations, reason) => {
      if (reason !== why || reservations.length < least)
        return orders.closeUnbooked(reservations, reason)
      const rows = await orders.find(reservations.map((r) => r.orderNo))
      return reservations.map((r) => verdictWithout(r, reason, rows))
    },
  })

function verdictWithout(
  { orderNo }: Reservation,
  reason: string,
  rows: Awaited<ReturnType<OrderBook['find']>>,
): Verdict {
  const status = rows.find((row) => row.orderNo === orderNo)?.status ?? 'closed'
  return status === 'closed'
    ? { orderNo, status, reason, fresh: true }
    : { orderNo, status, fresh: false }
}

/** Strikes off the batch of this number unless a relay has claimed it: then it is due later than 2 s after its birth. */
function strikeUnclaimed(store: RedisStore, orderNo: string): boolean {
  const batches = 'seckill:batch:{a}'
  const batch = [...(store.hash(batches) ?? [])].find(([, text]) => text.includes(orderNo))
  const [batchId = ''] = batch ?? []
  const born = Number(store.hash(batches)?.get(` ${batchId}`))
  const due = Number(store.call('ZSCORE', ['seckill:owed:{a}', batchId]))
  if (!batch || due !== born + 2_000) return false
  store.call('ZREM', ['seckill:owed:{a}', batchId])
  store.call('HDEL', [batches, batchId, ` ${batchId}`])
  return true
}

/** Closings of this reason never happen. */
export const neverCloses =
  (why: string) =>
  (orders: OrderBook): OrderBook => ({
    ...orders,
    closeUnbooked: async (reservations, reason) => {
      if (reason !== why) return orders.closeUnbooked(reservations, reason)
      throw new FlashSaleError('DB_UNAVAILABLE', 'this is never closed')
    },
  })

/** Gives units back on its own word that nobody has taken the owed message up. */
export const strikesOff: BrokenOrders = (orders, { store, write }) => ({
  ...orders,
  async closeUnbooked(reservations, reason) {
    if (reason !== 'send-rejected') return orders.closeUnbooked(reservations, reason)
    const numbers = reservations.map((r) => r.orderNo)
    const struck = await write('strike off if unclaimed', numbers, () =>
      strikeUnclaimed(store, numbers[0] as string),
    )
    if (!struck) throw new FlashSaleError('DB_UNAVAILABLE', 'the relay has taken it up')
    return reservations.map((r) => verdictWithout(r, reason, []))
  },
})

/** Tells Redis of a timeout before the database. */
export const redisFirst: BrokenOrders = (orders, { sale }) => ({
  ...orders,
  async closeUnpaid(orderNos, reason) {
    const rows = await orders.find(orderNos)
    await sale().stock.move(
      rows.map((reservation) => ({ to: 'released', reservation, reason: UNPAID })),
    )
    return orders.closeUnpaid(orderNos, reason)
  },
})

/** Tells Redis of a confirmation before its COMMIT. */
export const beforeCommit: BrokenOrders = (orders, { sale }) => ({
  ...orders,
  async confirm(reservations, signal) {
    await sale().stock.move(reservations.map((r) => ({ to: 'confirmed', reservation: r })))
    return orders.confirm(reservations, signal)
  },
})

/** Adds units in Redis before the database. */
export const unitsInRedisFirst: BrokenOrders = (orders, { sale }) => ({
  ...orders,
  async topUp(ref, units, operationId, audit) {
    await sale().stock.topUp(ref, units, operationId)
    return orders.topUp(ref, units, operationId, audit)
  },
})

/** Gives money back that no order takes before that is written down. */
export const refundsFirst = (book: PaymentBook, { channels, orders }: Own): PaymentBook => ({
  ...book,
  async capture(c, o) {
    const payment = await book.findPayment(c.paymentId)
    const [order] = await orders().find([payment?.orderNo ?? c.order?.orderNo ?? ''])
    const channel = channels.find((one) => one.channel === c.channel)
    const lost = order?.status === 'closed' || (order?.status === 'paid' && !payment?.paidOrderNo)
    if (!lost || !channel || payment?.refundingMinor) return book.capture(c, o)
    const refund = { ...c, refundId: o.newPaymentId, reason: 'order-closed' }
    await channel.refund(refund, { signal: new AbortController().signal })
    const captured = await book.capture(c, { ...o, latePayment: 'refund' })
    const { paymentId } = captured.payment
    const job = { ...refund, paymentId, refundId: paymentId, channelPaymentId: c.paymentId }
    await book.endRefund({ ...job, tries: 0 }, REFUNDED)
    return captured
  },
})

const REFUNDED = { status: 'refunded' } as const
