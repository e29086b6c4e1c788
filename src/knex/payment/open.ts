import { FlashSaleError } from '../../core/errors.js'
import type { PaymentOpened, PaymentRequest } from '../../core/payment.js'
import type { Json } from '../../core/types.js'
import { liveKeyOf, type OnePer } from '../order/rows.js'
import type { Database } from '../sql/database.js'
import { changePayment, insertPayment, keyedOrder, NEVER, paymentsWhere } from './rows.js'
import { resolveTask } from './tasks.js'

export interface OpenQuestion {
  readonly orderNo: string
  readonly userId: string
  readonly channel: string
  readonly paymentId: string
  readonly leaseMs: number
}

/** The row is durable before the channel hears of the payment; whoever asks the channel holds its lease. */
export function openPayment(
  database: Database,
  onePer: OnePer,
  q: OpenQuestion,
): Promise<PaymentOpened> {
  const { tables } = database
  return database.write(async (tx): Promise<PaymentOpened> => {
    const found = await keyedOrder(tx, tables, q.orderNo)
    if (found?.order.userId !== q.userId) return { status: 'not-found' }
    const { order, liveKey } = found
    if (order.status === 'paid') return { status: 'paid' }
    if (order.status === 'closed') return { status: 'closed', reason: order.reason ?? '' }
    if (liveKey !== liveKeyOf(order, onePer))
      throw new FlashSaleError(
        'BAD_OPTION',
        `option onePer must be the order book's, got ${onePer}: ${q.orderNo} was booked under another; nothing was written`,
      )
    const now = await tx.now()
    if (order.payBy <= now) return { status: 'too-late' }
    if (order.amountMinor === 0) return { status: 'free' }
    const { amountMinor, currency, userId, orderNo, payBy } = order
    const askKey = `${orderNo}|${q.channel}`
    const request = (paymentId: string): PaymentRequest => {
      return { paymentId, orderNo, userId, amountMinor, currency, payBy }
    }
    const lease = { tries: 1, next_at: now + q.leaseMs }
    const [there] = await paymentsWhere(tx, tables, 'ask_key = ?', [askKey])
    if (!there) {
      await insertPayment(
        tx,
        tables,
        {
          payment_id: q.paymentId,
          channel: q.channel,
          channel_payment_id: q.paymentId,
          ask_key: askKey,
          order_no: orderNo,
          activity_id: order.activityId,
          sku_id: order.skuId,
          user_id: userId,
          status: 'CREATED',
          amount_minor: amountMinor,
          currency,
          ...lease,
        },
        now,
      )
      return { status: 'ask', request: request(q.paymentId), again: false, tries: lease.tries }
    }
    if (there.status !== 'created') return { status: 'paid' }
    const { paymentId, cashier } = there
    if (cashier !== null) return { status: 'created', request: request(paymentId), cashier }
    // A repeat of this very transaction, after a lost answer to its COMMIT.
    if (paymentId === q.paymentId)
      return { status: 'ask', request: request(paymentId), again: false, tries: there.tries }
    if (there.nextAt > now) return { status: 'asking', request: request(paymentId) }
    const tries = there.tries + 1
    await changePayment(tx, tables, there, { ...lease, tries }, now)
    return { status: 'ask', request: request(paymentId), again: true, tries }
  })
}

/**
 * Somebody looks after it again at its order's deadline. One that was taken for withdrawn (the look came before the slow call
 * that made it) is looked after as before, at once: the buyer can pay it.
 */
export async function paymentOpened(
  database: Database,
  paymentId: string,
  cashier: Json,
): Promise<void> {
  const { tables } = database
  await database.write((tx) =>
    tx.run(
      // MySQL sets one column after the other, and reads what it has set.
      `UPDATE ${tables.payment} SET next_at = CASE status WHEN 'CREATED' THEN COALESCE((SELECT o.pay_by FROM ${tables.order} o WHERE o.order_no = ${tables.payment}.order_no), 0) ELSE 0 END,
       status = 'CREATED', cashier = ?, tries = 0
       WHERE payment_id = ? AND status IN ('CREATED', 'CLOSED') AND trade_no IS NULL`,
      [JSON.stringify(cashier), paymentId],
    ),
  )
}

/** The way is free for another payment of the same order and channel. */
export async function paymentWithdrawn(
  database: Database,
  paymentId: string,
  tries: number | undefined,
): Promise<void> {
  const { tables } = database
  const leased = tries === undefined ? '' : ' AND tries = ?'
  await database.write(async (tx) => {
    const affected = await tx.run(
      `UPDATE ${tables.payment} SET status = 'CLOSED', ask_key = NULL, next_at = ${NEVER}, updated_at = ${tx.dialect.now} WHERE payment_id = ? AND status = 'CREATED'${leased}`,
      tries === undefined ? [paymentId] : [paymentId, tries],
    )
    if (affected === 1) await resolveTask(tx, tables, 'payment-unknown', paymentId, 'it is closed')
  })
}

/** Nothing of what was reported is there; a later word about the same trade may still place it. */
export async function paymentUnfounded(database: Database, paymentId: string): Promise<void> {
  await database.write((tx) =>
    tx.run(
      `UPDATE ${database.tables.payment} SET captured_minor = 0, next_at = ${NEVER}, updated_at = ${tx.dialect.now} WHERE payment_id = ? AND status = 'ANOMALY' AND refunding_minor = 0`,
      [paymentId],
    ),
  )
}
