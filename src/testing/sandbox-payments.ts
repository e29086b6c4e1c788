import { newOrderNo } from '../core/order-no.js'
import type {
  ChannelCall,
  ChannelRefund,
  OrderRef,
  PaymentNotice,
  PaymentProvider,
  PaymentRequest,
  RefundRequest,
} from '../core/payment.js'
import { notInProduction } from './not-in-production.js'
import { seededRandom } from './sandbox-payment-random.js'

/**
 * How a call goes wrong. `unreached`: nothing happened, and the caller hears an error. `lost-answer`: it was done, and the
 * caller hears an error. `silent`: it was done, and no answer ever comes. `refused`: a definite no. `denied`: a query that
 * has not heard yet of what was done, and says `none`.
 */
export type SandboxFault = 'unreached' | 'lost-answer' | 'silent' | 'refused' | 'denied'

type Call = 'create' | 'query' | 'close' | 'refund' | 'queryRefund'

export interface SandboxPaymentsOptions {
  readonly channel: string
  /** Currencies it takes; payments in others are refused. @defaultValue all */
  readonly currencies?: readonly string[]
  /** The same seed, the same faults and orders of delivery. @defaultValue 1 */
  readonly seed?: number
  /** Share of the calls that are `unreached`, and of those whose answer is lost, 0 to 1 each. @defaultValue 0 */
  readonly unreached?: number
  readonly lostAnswer?: number
  /** Each call takes up to so many ms. @defaultValue 0 */
  readonly delayMs?: number
}

interface Payment {
  readonly request: PaymentRequest | null
  state: 'open' | 'closed' | 'paid'
  tradeNo: string
  amountMinor: number
  currency: string
}

/**
 * A payment channel in memory, for tests and demos. It keeps its books like a real one (one payment of an id, one refund of
 * an id, no refund beyond what came in) and can be told to fail, to lose its answers, and to send its callbacks late, twice
 * and in any order. Several `Payments` may share one.
 */
export class SandboxPayments implements PaymentProvider {
  readonly channel: string
  /** Calls that reached it. */
  readonly calls: Record<Call, number> = {
    create: 0,
    query: 0,
    close: 0,
    refund: 0,
    queryRefund: 0,
  }
  readonly #random: () => number
  readonly #o: SandboxPaymentsOptions
  readonly #payments = new Map<string, Payment>()
  readonly #refunds = new Map<string, RefundRequest>()
  readonly #faults: { call: Call; fault: SandboxFault }[] = []
  #outgoing: PaymentNotice[] = []
  #calm = false

  /** Throws `BAD_OPTION` where `NODE_ENV` is production: it takes no money, and fails on purpose. */
  constructor(o: SandboxPaymentsOptions) {
    notInProduction('SandboxPayments')
    this.channel = o.channel
    this.#o = o
    this.#random = seededRandom(o.seed ?? 1)
  }

  /** The next `times` calls of this kind go wrong in this way. */
  fail(call: Call, fault: SandboxFault, times = 1): void {
    for (let i = 0; i < times; i++) this.#faults.push({ call, fault })
  }

  /** From now on every call is answered, for the end of a test: what went wrong before must still come right. */
  calm(): void {
    this.#faults.length = 0
    this.#calm = true
  }

  /**
   * The buyer pays, and a callback waits to be delivered; returns it. Amount and currency are those asked for, unless told
   * otherwise. Null when the payment is closed. A payment that nobody made here needs its amount.
   */
  pay(
    paymentId: string,
    o: {
      readonly amountMinor?: number
      readonly currency?: string
      readonly userId?: string
      readonly order?: OrderRef
    } = {},
  ): PaymentNotice | null {
    const there = this.#payments.get(paymentId)
    if (there && there.state !== 'open') return null
    const payment: Payment = {
      request: there?.request ?? null,
      state: 'paid',
      tradeNo: newOrderNo(),
      amountMinor: o.amountMinor ?? there?.amountMinor ?? 0,
      currency: o.currency ?? there?.currency ?? 'CNY',
    }
    this.#payments.set(paymentId, payment)
    const { tradeNo, amountMinor, currency } = payment
    const { userId, order } = o
    const notice: PaymentNotice = {
      channel: this.channel,
      paymentId,
      tradeNo,
      amountMinor,
      currency,
      verified: true,
      ...(userId === undefined ? {} : { userId }),
      ...(order === undefined ? {} : { order }),
    }
    this.#outgoing.push(notice)
    return notice
  }

  /**
   * Delivers what waits, in random order and each perhaps twice, until the receiver acknowledges it; at most `rounds` times
   * (default 20). Returns what is still not acknowledged.
   */
  async deliver(
    receiver: (notice: PaymentNotice) => Promise<{ readonly acknowledge: boolean }>,
    rounds = 20,
  ): Promise<readonly PaymentNotice[]> {
    for (let round = 0; round < rounds && this.#outgoing.length > 0; round++) {
      const batch = this.#outgoing.map((notice) => ({ notice, at: this.#random() }))
      this.#outgoing = []
      batch.sort((a, b) => a.at - b.at)
      for (const { notice } of batch) {
        const times = this.#random() < 0.3 ? 2 : 1
        let acknowledged = false
        for (let i = 0; i < times; i++)
          acknowledged = (await receiver(notice)).acknowledge || acknowledged
        if (!acknowledged) this.#outgoing.push(notice)
      }
    }
    return this.#outgoing
  }

  /** What it received and still has or has given back. */
  received(): readonly {
    readonly tradeNo: string
    readonly amountMinor: number
    readonly refundedMinor: number
  }[] {
    const paid = [...this.#payments.values()].filter((p) => p.state === 'paid')
    return paid.map(({ tradeNo, amountMinor }) => ({
      tradeNo,
      amountMinor,
      refundedMinor: this.#refunded(tradeNo),
    }))
  }

  /** Refunds it has made. */
  refunds(): readonly RefundRequest[] {
    return [...this.#refunds.values()]
  }

  create(request: PaymentRequest, o: ChannelCall) {
    type Answer = Awaited<ReturnType<PaymentProvider['create']>>
    return this.#call<Answer>('create', o, { status: 'refused', reason: 'sandbox' }, () => {
      const { paymentId, amountMinor, currency } = request
      if (this.#o.currencies?.includes(currency) === false)
        return { status: 'refused', reason: `no ${currency} here` }
      if (!this.#payments.has(paymentId))
        this.#payments.set(paymentId, {
          request,
          state: 'open',
          tradeNo: '',
          amountMinor,
          currency,
        })
      return { status: 'created', cashier: { paymentId } }
    })
  }

  query(paymentId: string, o: ChannelCall) {
    type Answer = Awaited<ReturnType<PaymentProvider['query']>>
    return this.#call<Answer>('query', o, { status: 'none' }, () => {
      const payment = this.#payments.get(paymentId)
      if (!payment) return { status: 'none' }
      if (payment.state === 'open') return { status: 'open', cashier: { paymentId } }
      return payment.state === 'closed' ? { status: 'closed' } : paidBy(payment)
    })
  }

  close(paymentId: string, o: ChannelCall) {
    type Answer = Awaited<ReturnType<PaymentProvider['close']>>
    return this.#call<Answer>('close', o, { status: 'closed' }, () => {
      const payment = this.#payments.get(paymentId)
      if (payment?.state === 'paid') return paidBy(payment)
      if (payment) payment.state = 'closed'
      return { status: 'closed' }
    })
  }

  refund(request: RefundRequest, o: ChannelCall) {
    const no = { status: 'refused', reason: 'sandbox' } as const
    return this.#call<ChannelRefund>('refund', o, no, () => {
      if (this.#refunds.has(request.refundId)) return { status: 'refunded' }
      const { tradeNo, amountMinor } = request
      const payment = [...this.#payments.values()].find((p) => p.tradeNo === tradeNo)
      if (!payment || this.#refunded(tradeNo) + amountMinor > payment.amountMinor)
        return { status: 'refused', reason: 'more than was paid' }
      this.#refunds.set(request.refundId, request)
      return { status: 'refunded' }
    })
  }

  queryRefund({ refundId }: RefundRequest, o: ChannelCall) {
    type Answer = Awaited<ReturnType<PaymentProvider['queryRefund']>>
    return this.#call<Answer>('queryRefund', o, { status: 'none' }, () =>
      this.#refunds.has(refundId) ? { status: 'refunded' } : { status: 'none' },
    )
  }

  #refunded(tradeNo: string): number {
    const mine = [...this.#refunds.values()].filter((r) => r.tradeNo === tradeNo)
    return mine.reduce((sum, r) => sum + r.amountMinor, 0)
  }

  async #call<T>(call: Call, o: ChannelCall, no: T, act: () => T): Promise<T> {
    const fault = this.#faultOf(call)
    const { delayMs = 0 } = this.#o
    if (delayMs > 0) await new Promise((done) => setTimeout(done, this.#random() * delayMs))
    if (fault === 'unreached') throw new Error('the sandbox was not reached')
    this.calls[call]++
    if (fault === 'refused' || fault === 'denied') return no
    const answer = act()
    if (fault === 'lost-answer') throw new Error('the answer of the sandbox was lost')
    if (fault === 'silent')
      return new Promise((_, reject) =>
        o.signal.addEventListener('abort', () => reject(o.signal.reason)),
      )
    return answer
  }

  #faultOf(call: Call): SandboxFault | null {
    const i = this.#faults.findIndex((f) => f.call === call)
    if (i >= 0) return this.#faults.splice(i, 1)[0]?.fault ?? null
    if (this.#calm) return null
    const { unreached = 0, lostAnswer = 0 } = this.#o
    const dice = this.#random()
    if (dice < unreached) return 'unreached'
    return dice < unreached + lostAnswer ? 'lost-answer' : null
  }
}

function paidBy({ tradeNo, amountMinor, currency }: Payment) {
  return { status: 'paid', tradeNo, amountMinor, currency } as const
}
