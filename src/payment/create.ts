import * as check from '../core/check.js'
import { newOrderNo } from '../core/order-no.js'
import type { ChannelPaid, PaymentRequest } from '../core/payment.js'
import type { Json } from '../core/types.js'
import { moneyOf, placeMoney } from './notice.js'
import type { Parts } from './parts.js'

export interface CreateQuestion {
  readonly orderNo: string
  /** From the host's session, never from the request's body. */
  readonly userId: string
  readonly channel: string
}

/**
 * - `created`: `cashier` is what the channel wants the buyer's page to have.
 * - `unknown`: the channel did not say, or another call is asking it; ask again.
 * - `paid`: the money is here. `free`: there is nothing to pay.
 * - `refused`: the channel makes no payment of it, or it has money that goes back.
 * - `not-found`: no CONFIRMED order of this buyer has the number. `too-late`: its deadline has passed.
 */
export type PaymentCreated =
  | { readonly status: 'created'; readonly payment: PaymentRequest; readonly cashier: Json }
  | { readonly status: 'unknown'; readonly paymentId: string }
  | { readonly status: 'refused' | 'closed'; readonly reason: string }
  | { readonly status: 'not-found' | 'too-late' | 'paid' | 'free' }

export async function createPayment(parts: Parts, q: CreateQuestion): Promise<PaymentCreated> {
  check.object(q, 'question')
  const { channel } = parts.provider(q.channel)
  const takenAt = performance.now()
  const opened = await parts.book.open({
    orderNo: check.id(q.orderNo, 'orderNo'),
    userId: check.userIdOf(q.userId),
    channel,
    paymentId: newOrderNo(),
    leaseMs: parts.leaseMs,
  })
  switch (opened.status) {
    case 'created':
      return { status: 'created', payment: opened.request, cashier: opened.cashier }
    case 'asking':
      return { status: 'unknown', paymentId: opened.request.paymentId }
    case 'ask': {
      const { request, again, tries } = opened
      const found = again ? await lookUp(parts, channel, request, tries) : 'none'
      if (found !== 'none') return found
      if (parts.isLate(takenAt)) return { status: 'unknown', paymentId: request.paymentId }
      return askChannel(parts, channel, request, tries)
    }
    default:
      return opened
  }
}

async function askChannel(
  parts: Parts,
  channel: string,
  request: PaymentRequest,
  tries: number,
): Promise<PaymentCreated> {
  const { paymentId } = request
  const answer = await parts.ask(channel, ['created', 'refused'], (provider, o) =>
    provider.create(request, o),
  )
  if (answer === 'unknown') return { status: 'unknown', paymentId }
  if (answer.status === 'refused') {
    await parts.book.withdrawn(paymentId, tries)
    return { status: 'refused', reason: String(answer.reason) }
  }
  return opened(parts, request, answer.cashier)
}

/** What became of a call that nobody heard the answer of; `tries`: the fence of whoever looks. */
export async function lookUp(
  parts: Parts,
  channel: string,
  request: PaymentRequest,
  tries: number,
): Promise<PaymentCreated | 'none'> {
  const { paymentId } = request
  const answer = await parts.ask(channel, ['none', 'open', 'closed', 'paid'], (provider, o) =>
    provider.query(paymentId, o),
  )
  if (answer === 'unknown') return { status: 'unknown', paymentId }
  switch (answer.status) {
    case 'none':
      return 'none'
    case 'open':
      return opened(parts, request, answer.cashier)
    case 'closed':
      await parts.book.withdrawn(paymentId, tries)
      return { status: 'refused', reason: 'closed at the channel' }
    case 'paid':
      return place(parts, channel, paymentId, answer)
    default:
      return answer satisfies never
  }
}

/** The money is here, but it may be of no use: then the buyer is not told that he has paid. */
async function place(
  parts: Parts,
  channel: string,
  paymentId: string,
  paid: ChannelPaid,
): Promise<PaymentCreated> {
  const money = moneyOf({ channel, channelPaymentId: paymentId }, paid)
  const captured = await placeMoney(parts, money)
  switch (captured.status) {
    case 'applied':
    case 'waiting':
      return { status: 'paid' }
    case 'refunding':
      return { status: 'refused', reason: captured.reason }
    case 'anomaly':
      return { status: 'unknown', paymentId }
    default:
      return captured satisfies never
  }
}

async function opened(
  parts: Parts,
  payment: PaymentRequest,
  cashier: Json,
): Promise<PaymentCreated> {
  await parts.book.opened(payment.paymentId, cashier)
  return { status: 'created', payment, cashier }
}
