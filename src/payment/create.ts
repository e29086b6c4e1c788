import * as check from '../core/check.js'
import { newOrderNo } from '../core/order-no.js'
import type { PaymentRequest } from '../core/payment.js'
import type { Json } from '../core/types.js'
import { placeMoney } from './notice.js'
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
 * - `refused`: the channel makes no payment of it. `free`: there is nothing to pay.
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
      const found = opened.again ? await lookUp(parts, channel, opened.request) : 'none'
      return found === 'none' ? askChannel(parts, channel, opened.request) : found
    }
    default:
      return opened
  }
}

async function askChannel(
  parts: Parts,
  channel: string,
  request: PaymentRequest,
): Promise<PaymentCreated> {
  const { paymentId } = request
  const answer = await parts.ask(channel, ['created', 'refused'], (provider, o) =>
    provider.create(request, o),
  )
  if (answer === 'unknown') return { status: 'unknown', paymentId }
  if (answer.status === 'refused') {
    await parts.book.withdrawn(paymentId)
    return { status: 'refused', reason: String(answer.reason) }
  }
  return opened(parts, request, answer.cashier)
}

/** What became of a call that nobody heard the answer of. */
export async function lookUp(
  parts: Parts,
  channel: string,
  request: PaymentRequest,
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
      await parts.book.withdrawn(paymentId)
      return { status: 'refused', reason: 'closed at the channel' }
    case 'paid': {
      const { tradeNo, amountMinor, currency } = answer
      const money = { channel, paymentId, tradeNo, amountMinor, currency }
      await placeMoney(parts, { ...money, userId: null, order: null, confirmed: true })
      return { status: 'paid' }
    }
    default:
      return answer satisfies never
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
