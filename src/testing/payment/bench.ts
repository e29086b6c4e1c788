import { AssertionError, fail } from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { within } from '../../core/background.js'
import { newOrderNo } from '../../core/order-no.js'
import type {
  ChannelCall,
  ChannelPaid,
  ChannelRefund,
  PaymentProvider,
  PaymentRequest,
  RefundRequest,
} from '../../core/payment.js'
import type { Json } from '../../core/types.js'
import type {
  ChannelFault,
  ChannelMethod,
  PaymentProviderUnderTest,
} from '../payment-provider-suite.js'

/** A payment that the channel has the money of. */
export interface Bought {
  readonly request: PaymentRequest
  readonly paid: ChannelPaid
}

/** An adapter on the bench: each call with its deadline, and a throw told apart from an answer. */
export class PaymentBench {
  readonly provider: PaymentProvider

  constructor(readonly under: PaymentProviderUnderTest) {
    this.provider = under.provider
  }

  request(o: Partial<PaymentRequest> = {}): PaymentRequest {
    return {
      paymentId: newOrderNo(),
      orderNo: newOrderNo(),
      userId: 'suite-buyer',
      amountMinor: 9_900,
      currency: this.under.currencies[0] ?? fail('the adapter under test names no currency'),
      payBy: Date.now() + 3_600_000,
      ...o,
    }
  }

  /** Makes one call; fails when it is not over in time. */
  async call<T>(
    what: string,
    act: (provider: PaymentProvider, o: ChannelCall) => Promise<T>,
  ): Promise<T> {
    const { patienceMs } = this.under
    const abort = new AbortController()
    const running = (async () => act(this.provider, { signal: abort.signal }))()
    return within(running, patienceMs, () => {
      abort.abort()
      fail(`${what} is not over within ${patienceMs} ms`)
    })
  }

  create(request: PaymentRequest) {
    return this.call('create', (p, o) => p.create(request, o))
  }

  query(paymentId: string) {
    return this.call('query', (p, o) => p.query(paymentId, o))
  }

  closePayment(paymentId: string) {
    return this.call('close', (p, o) => p.close(paymentId, o))
  }

  refund(request: RefundRequest) {
    return this.call('refund', (p, o) => p.refund(request, o))
  }

  queryRefund(request: RefundRequest) {
    return this.call('queryRefund', (p, o) => p.queryRefund(request, o))
  }

  /** A payment that waits for its buyer; returns what his page gets. */
  async made(request: PaymentRequest): Promise<Json> {
    const answer = await this.create(request)
    if (answer.status !== 'created') return fail(`create answered ${answer.status}, not created`)
    return answer.cashier
  }

  async money(paymentId: string): Promise<ChannelPaid> {
    const answer = await this.query(paymentId)
    return answer.status === 'paid'
      ? answer
      : fail(`after the buyer has paid, query answered ${answer.status}, not paid`)
  }

  async bought(o: Partial<PaymentRequest> = {}): Promise<Bought> {
    const request = this.request(o)
    const cashier = await this.made(request)
    if (!(await this.under.pay(request.paymentId, cashier)))
      fail('the buyer of an open payment could not pay it')
    return { request, paid: await this.money(request.paymentId) }
  }

  refundOf({ request, paid }: Bought, amountMinor: number, refundId = newOrderNo()): RefundRequest {
    const { paymentId, currency } = request
    const { tradeNo } = paid
    return { refundId, paymentId, tradeNo, amountMinor, currency, reason: 'a test of the suite' }
  }

  /** What became of a refund in the end: a channel may say `pending` before. */
  async end(request: RefundRequest, answer: ChannelRefund): Promise<'refunded' | 'refused'> {
    const end = performance.now() + this.under.patienceMs
    let said: Awaited<ReturnType<PaymentProvider['queryRefund']>> = answer
    while (said.status === 'pending') {
      if (performance.now() > end) fail(`a refund is pending for ${this.under.patienceMs} ms`)
      await sleep(20)
      said = await this.queryRefund(request)
    }
    return said.status === 'none' ? fail('a refund that was pending is none') : said.status
  }

  async refunded(request: RefundRequest): Promise<'refunded' | 'refused'> {
    return this.end(request, await this.refund(request))
  }

  /** A call at a channel that fails: whatever it resolves with would be believed. */
  async throws<T extends { readonly status: string }>(
    method: ChannelMethod,
    fault: ChannelFault,
    call: () => Promise<T>,
  ): Promise<void> {
    this.under.fail?.(method, fault)
    let answer: T
    try {
      answer = await call()
    } catch (error) {
      if (error instanceof AssertionError) throw error
      return
    }
    fail(`${method}, with a channel that is ${fault}, answered ${answer.status}: it must throw`)
  }

  async close(): Promise<void> {
    await this.under.close()
  }
}
