import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import { newOrderNo } from '../core/order-no.js'
import type {
  Capture,
  Captured,
  ChannelPaid,
  PaymentNotice,
  StoredPayment,
} from '../core/payment.js'
import type { Json } from '../core/types.js'
import { UNPAID } from '../core/unpaid.js'
import { isMoney, type Parts } from './parts.js'

/**
 * What became of a callback. Answer the channel "received" when `acknowledge` is true; else let it come again.
 * - `applied`: its order is PAID by it. `repeated`: all was done before.
 * - `refunding`: the money is real and cannot be taken; its refund is decided.
 * - `retry-later`: kept, or not even that (the database is away).
 * - `anomaly`: it does not fit; stored, alerted, never applied.
 */
export interface NoticeAnswer {
  readonly status: 'applied' | 'repeated' | 'refunding' | 'retry-later' | 'anomaly'
  readonly acknowledge: boolean
}

/** Takes a callback. Throws `BAD_INPUT` for one that names no channel of ours, payment or trade. */
export async function takeNotice(parts: Parts, n: PaymentNotice): Promise<NoticeAnswer> {
  const notice = checkNotice(parts, n)
  try {
    if (notice.verified !== true) return await unverified(parts, notice)
    if (!isMoney(notice)) return await noMoney(parts, notice)
    const {
      channel,
      paymentId,
      tradeNo,
      amountMinor,
      currency,
      userId = null,
      order = null,
    } = notice
    const money = { channel, paymentId, tradeNo, amountMinor, currency, userId, order }
    return await answerTo(parts, await placeMoney(parts, { ...money, confirmed: false }))
  } catch (error) {
    if (!(error instanceof FlashSaleError) || error.code === 'BAD_INPUT') throw error
    parts.alert('payment-notice-failed', { ...shown(notice), error })
    return { status: 'retry-later', acknowledge: false }
  }
}

/** Places money and tells Redis, the pager, and the keeper, in this order. */
export async function placeMoney(parts: Parts, capture: Capture): Promise<Captured> {
  const captured = await parts.book.capture(capture, {
    latePayment: parts.latePayment,
    newOrderNo: newOrderNo(),
    newPaymentId: newOrderNo(),
  })
  const { paymentId, orderNo, tradeNo } = captured.payment
  const about = { paymentId, orderNo, tradeNo }
  switch (captured.status) {
    case 'applied': {
      const { order, late, fresh } = captured
      // Also when it was applied before: then whoever did it may have died before Redis heard of it. The closed order's mark
      // makes room first, or the new order would lie beside it, and its buyer have none once it is released.
      const closed = { ...order, orderNo }
      await parts.tell([
        ...(late ? [{ to: 'released' as const, reservation: closed, reason: UNPAID }] : []),
        { to: 'paid', reservation: order },
      ])
      if (!fresh) break
      if (late) parts.alert('late-payment', { ...about, newOrderNo: order.orderNo })
      await parts.book.hasten([orderNo])
      break
    }
    case 'refunding':
      if (captured.fresh) parts.alert('payment-not-taken', { ...about, reason: captured.reason })
      break
    case 'anomaly':
      if (captured.fresh) parts.alert('payment-anomaly', { ...about, why: captured.why })
      break
    case 'waiting':
      break
    default:
      captured satisfies never
  }
  return captured
}

async function answerTo(parts: Parts, captured: Captured): Promise<NoticeAnswer> {
  switch (captured.status) {
    case 'applied':
    case 'refunding':
      return { status: captured.fresh ? captured.status : 'repeated', acknowledge: true }
    case 'waiting':
      return { status: 'retry-later', acknowledge: false }
    case 'anomaly':
      if (captured.fresh && captured.why !== 'contradiction')
        await askAbout(parts, captured.payment)
      return { status: 'anomaly', acknowledge: true }
    default:
      return captured satisfies never
  }
}

/**
 * An anomaly is a callback's word. What the channel itself says counts: money that is there is placed or goes back. False when
 * it said nothing definite: `none` may be a query that lags behind the callback, and what is `open` the buyer may yet pay.
 */
export async function askAbout(parts: Parts, payment: StoredPayment): Promise<boolean> {
  const { channel, channelPaymentId } = payment
  const answer = await parts.ask(channel, ['none', 'open', 'closed', 'paid'], (provider, o) =>
    provider.query(channelPaymentId, o),
  )
  if (answer === 'unknown' || answer.status === 'none' || answer.status === 'open') return false
  await settle(parts, payment, answer.status === 'paid' ? answer : null)
  return true
}

/** Lets nobody pay it any more, or places the money that came first; both are definite. */
export async function withdraw(
  parts: Parts,
  payment: StoredPayment,
): Promise<'closed' | 'paid' | 'unknown'> {
  const { channel, channelPaymentId } = payment
  const answer = await parts.ask(channel, ['closed', 'paid'], (provider, o) =>
    provider.close(channelPaymentId, o),
  )
  if (answer === 'unknown') return answer
  await settle(parts, payment, answer.status === 'paid' ? answer : null)
  return answer.status
}

/**
 * A definite word of the channel: the money it has, or that there is none, nor will be. What an anomaly is about is no money,
 * unless the channel has this very trade.
 */
async function settle(
  parts: Parts,
  payment: StoredPayment,
  paid: ChannelPaid | null,
): Promise<void> {
  const { paymentId, status, tradeNo } = payment
  if (paid) await placeMoney(parts, moneyOf(payment, paid))
  if (status === 'anomaly') {
    if (paid?.tradeNo !== tradeNo) await parts.book.unfounded(paymentId)
  } else if (!paid) await parts.book.withdrawn(paymentId)
}

/** Money that the channel itself says it has. */
export function moneyOf(
  { channel, channelPaymentId }: Pick<StoredPayment, 'channel' | 'channelPaymentId'>,
  { tradeNo, amountMinor, currency }: ChannelPaid,
): Capture {
  const money = { channel, paymentId: channelPaymentId, tradeNo, amountMinor, currency }
  return { ...money, userId: null, order: null, confirmed: true }
}

/** Anybody may send such a thing: it is stored about payments that exist, and costs the channel no question. */
async function unverified(parts: Parts, notice: PaymentNotice): Promise<NoticeAnswer> {
  parts.alert('payment-unverified', shown(notice))
  const { orderNo } = notice.order ?? { orderNo: '' }
  const known = await parts.book.findPayment(notice.paymentId)
  const order = orderNo === '' ? [] : await parts.orders.find([orderNo])
  if (known || order.length > 0) await store(parts, notice, 'unverified')
  return { status: 'anomaly', acknowledge: false }
}

/** An amount that is none cannot be booked, nor given back. */
async function noMoney(parts: Parts, notice: PaymentNotice): Promise<NoticeAnswer> {
  parts.alert('payment-anomaly', { ...shown(notice), why: 'not-an-amount' })
  await store(parts, notice, 'not-an-amount')
  return { status: 'anomaly', acknowledge: true }
}

async function store(parts: Parts, notice: PaymentNotice, why: string): Promise<void> {
  const ref = `${why}:${notice.channel}:${notice.tradeNo}`
  await parts.orders.addManualTask({ kind: 'payment-anomaly', ref, detail: shown(notice) })
}

function checkNotice(parts: Parts, n: PaymentNotice): PaymentNotice {
  check.object(n, 'notice')
  parts.provider(n.channel)
  check.id(n.paymentId, 'paymentId')
  check.id(n.tradeNo, 'tradeNo')
  const { channel, paymentId, tradeNo, amountMinor, currency, verified } = n
  const plain = { channel, paymentId, tradeNo, amountMinor, currency, verified }
  const userId = n.userId === undefined ? {} : { userId: check.userIdOf(n.userId) }
  if (n.order === undefined) return { ...plain, ...userId }
  check.object(n.order, 'order')
  const order = { ...check.skuRef(n.order), orderNo: check.id(n.order.orderNo, 'order.orderNo') }
  return { ...plain, userId: check.userIdOf(n.userId), order }
}

/** For a task or an alert; the odd values that brought it here as short text. */
function shown(notice: PaymentNotice): { readonly [key: string]: Json } {
  const { channel, paymentId, tradeNo, userId = null, order = null } = notice
  const amountMinor = check.show(notice.amountMinor)
  const currency = check.show(notice.currency)
  const orderNo = order?.orderNo ?? null
  return { channel, paymentId, tradeNo, amountMinor, currency, userId, orderNo }
}
