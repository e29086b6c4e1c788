import type { Capture, Captured, LatePayment, PaymentMisfit } from '../../core/payment.js'
import { storable } from '../../core/storable.js'
import { addManualTask, reopenManualTask } from '../manual-tasks.js'
import type { Tables } from '../sql/names.js'
import type { Tx } from '../sql/tx.js'
import { apply, applyLate, type CaptureParts } from './apply.js'
import { place } from './place.js'
import { insertRefund } from './refund-rows.js'
import {
  changePayment,
  insertPayment,
  orderByNo,
  type PaymentRecord,
  paymentsWhere,
  storedPayment,
  type Values,
} from './rows.js'
import { resolveTask } from './tasks.js'

export interface CaptureOptions {
  readonly latePayment: LatePayment
  readonly newOrderNo: string
  readonly newPaymentId: string
  /** Why the money is only kept this time. */
  readonly hold?: string
}

/** What the column holds. */
const MAX_REASON = 255

/** Looks after its order, or after what the channel says, so many ms after it came. */
const FIRST_LOOK_MS = 1_000

/** One transaction of `PaymentBook.capture`. Locks are taken in the order payment, order, stock. */
export async function capture(
  tx: Tx,
  parts: CaptureParts,
  c: Capture,
  o: CaptureOptions,
): Promise<Captured> {
  const { tables } = parts.database
  const now = await tx.now()
  const trade = [c.channel, c.tradeNo]
  const [byTrade] = await paymentsWhere(tx, tables, 'channel = ? AND trade_no = ?', trade)
  const [byId] = await paymentsWhere(tx, tables, 'payment_id = ?', [c.paymentId])
  if (byTrade && !isOpen(byTrade)) return standing(tx, parts, byTrade, c)

  const foreign = byId !== undefined && byId.channel !== c.channel
  const free = byId && !foreign && byId.tradeNo === null ? byId : undefined
  const read = byTrade ?? free
  const orderNo = read?.orderNo || byId?.orderNo || c.order?.orderNo || ''
  const order = orderNo === '' ? null : await orderByNo(tx, tables, orderNo)
  const claim = foreign ? 'wrong-channel' : c.confirmed ? claimOf(read) : null
  const known = { orderNo, order, claim }
  const placed = o.hold === undefined ? place(c, known, o.latePayment) : ({ kind: 'wait' } as const)

  /** Writes the money's row, and returns it as it is then. */
  const write = async (values: Values): Promise<PaymentRecord> => {
    const money: Values = {
      trade_no: c.tradeNo,
      captured_minor: c.amountMinor,
      currency: c.currency,
      received_at: read?.receivedAt ?? now,
      tries: read?.status.toUpperCase() === values.status ? (read?.tries ?? 0) : 0,
      ...values,
    }
    const paymentId = read?.paymentId ?? (byId ? o.newPaymentId : c.paymentId)
    if (read) await changePayment(tx, tables, read, money, now)
    else {
      const row: Values = {
        payment_id: paymentId,
        channel: c.channel,
        channel_payment_id: c.paymentId,
        order_no: orderNo,
        activity_id: order?.activityId ?? c.order?.activityId ?? '',
        sku_id: order?.skuId ?? c.order?.skuId ?? '',
        user_id: order?.userId ?? c.userId ?? '',
        amount_minor: order?.amountMinor ?? c.amountMinor,
        ...money,
      }
      await insertPayment(tx, tables, row, now)
    }
    if (read) await resolveTasks(tx, tables, read, values.status)
    const [written] = await paymentsWhere(tx, tables, 'payment_id = ?', [paymentId])
    return written as PaymentRecord
  }
  const refund = async (reason: string): Promise<Captured> => {
    const payment = await write({
      status: 'REFUNDING',
      reason,
      ask_key: null,
      refunding_minor: c.amountMinor,
      next_at: 0,
    })
    // The refund that nobody asked for bears the payment's own id, so there is one of it.
    await insertRefund(tx, tables, {
      payment,
      refundId: payment.paymentId,
      amountMinor: c.amountMinor,
      reason,
      now,
    })
    return { status: 'refunding', payment: storedPayment(payment), reason, fresh: true }
  }

  switch (placed.kind) {
    case 'pay':
      return apply(tx, parts, { write, order: placed.order, now })
    case 'reserve': {
      const applied = await applyLate(tx, parts, {
        write,
        closed: placed.order,
        newOrderNo: o.newOrderNo,
        now,
      })
      return 'refused' in applied ? refund(`order-closed: ${applied.refused}`) : applied
    }
    case 'refund':
      return refund(placed.reason)
    case 'wait': {
      const reason = o.hold === undefined ? null : storable(o.hold, MAX_REASON)
      const values: Values = { status: 'RECEIVED', reason }
      const payment = await write(
        read?.status === 'received' ? values : { ...values, next_at: now + FIRST_LOOK_MS },
      )
      if (o.hold !== undefined) {
        const detail = { orderNo, tradeNo: c.tradeNo, error: o.hold }
        await reopenManualTask(
          tx,
          tables.manualTask,
          { kind: 'payment-hook', ref: payment.paymentId, detail },
          now,
        )
      }
      return { status: 'waiting', payment: storedPayment(payment) }
    }
    case 'anomaly': {
      const why = placed.reason as PaymentMisfit
      const fresh = read?.status !== 'anomaly' || read.reason !== why
      const payment = await write({
        status: 'ANOMALY',
        reason: why,
        ask_key: null,
        next_at: now + FIRST_LOOK_MS,
      })
      const task = {
        kind: 'payment-anomaly',
        ref: payment.paymentId,
        detail: { why, orderNo, order: order && bare(order), capture: c },
      }
      // The same word once more is not a reason to ask again a person who has dealt with it.
      const tell = fresh ? reopenManualTask : addManualTask
      await tell(tx, tables.manualTask, task, now)
      return { status: 'anomaly', payment: storedPayment(payment), why, fresh }
    }
    default:
      return placed satisfies never
  }
}

/** Money that is placed asks nobody for anything; of what did not fit and goes back, a person is still to find the cause. */
async function resolveTasks(
  tx: Tx,
  tables: Tables,
  read: PaymentRecord,
  to: Values[string] | undefined,
): Promise<void> {
  const { paymentId, status } = read
  const end = to === 'PAID' ? 'it paid its order' : 'it goes back'
  if (status === 'created')
    await resolveTask(tx, tables, 'payment-unknown', paymentId, 'the money is here')
  if (status === 'received' && (to === 'PAID' || to === 'REFUNDING'))
    await resolveTask(tx, tables, 'payment-hook', paymentId, end)
  if (status === 'anomaly' && to === 'PAID')
    await resolveTask(tx, tables, 'payment-anomaly', paymentId, end)
}

const ABOUT_AMOUNT: readonly (string | null)[] = ['wrong-amount', 'wrong-currency']

/** The channel can set an amount right. Whose order it is only the callback said. */
function claimOf(read: PaymentRecord | undefined): PaymentMisfit | null {
  if (read?.status !== 'anomaly' || ABOUT_AMOUNT.includes(read.reason)) return null
  return read.reason as PaymentMisfit
}

/** Not yet placed, so that a later word about the same trade may still place it. */
function isOpen(payment: PaymentRecord): boolean {
  return (
    (payment.status === 'received' || payment.status === 'anomaly') && payment.refundingMinor === 0
  )
}

function bare(order: {
  orderNo: string
  userId: string
  status: string
  amountMinor: number
  currency: string
}) {
  const { orderNo, userId, status, amountMinor, currency } = order
  return { orderNo, userId, status, amountMinor, currency }
}

/** The same money again: it stays where it is. */
async function standing(
  tx: Tx,
  parts: CaptureParts,
  payment: PaymentRecord,
  c: Capture,
): Promise<Captured> {
  const shown = storedPayment(payment)
  if (c.amountMinor !== payment.capturedMinor || c.currency !== payment.currency) {
    const { tables } = parts.database
    const task = {
      kind: 'payment-anomaly',
      ref: payment.paymentId,
      detail: { why: 'contradiction', stored: shown, capture: c },
    }
    await reopenManualTask(tx, tables.manualTask, task, await tx.now())
    return { status: 'anomaly', payment: shown, why: 'contradiction', fresh: true }
  }
  if (payment.status === 'anomaly')
    return { status: 'anomaly', payment: shown, why: payment.reason as PaymentMisfit, fresh: false }
  if (payment.status !== 'paid')
    return { status: 'refunding', payment: shown, reason: payment.reason ?? '', fresh: false }
  const order = await orderByNo(tx, parts.database.tables, payment.paidOrderNo as string)
  if (!order) tx.conflict(`order ${payment.paidOrderNo} is not to be seen yet`)
  return {
    status: 'applied',
    payment: shown,
    order,
    fresh: false,
    late: payment.paidOrderNo !== payment.orderNo,
  }
}
