import { FlashSaleError } from '../../core/errors.js'
import type {
  ChannelPaid,
  ChannelRefund,
  OrderRef,
  PaymentNotice,
  PaymentProvider,
  PaymentRequest,
  RefundRequest,
} from '../../core/payment.js'
import type { CallFault, Calls, SimProcess } from './process.js'

interface Payment {
  state: 'open' | 'closed' | 'paid'
  amountMinor: number
  tradeNo: string
}

/** Money that the channel has received. */
export interface Trade {
  readonly channel: string
  readonly paymentId: string
  readonly tradeNo: string
  readonly amountMinor: number
}

const CURRENCY = 'CNY'

/**
 * One payment channel. It makes one refund of an id, but does not count what it gives back: that no more goes back than came
 * is for the library to see to.
 */
export class SimChannel {
  readonly payments = new Map<string, Payment>()
  readonly trades: Trade[] = []
  readonly refunds = new Map<string, RefundRequest>()
  /** Callbacks that nobody has acknowledged. */
  outgoing: PaymentNotice[] = []
  /** Rises with every change. */
  version = 0

  constructor(readonly name: string) {}

  open(): string[] {
    return [...this.payments].filter(([, p]) => p.state === 'open').map(([id]) => id)
  }

  /** A buyer pays; by a payment of the host's own, or one that was made here. */
  pay(paymentId: string, own?: { amountMinor: number; userId: string; order: OrderRef }): void {
    const { name, trades, payments } = this
    const amountMinor = own?.amountMinor ?? payments.get(paymentId)?.amountMinor ?? 0
    const tradeNo = `${name}-trade${trades.length + 1}`
    payments.set(paymentId, { state: 'paid', amountMinor, tradeNo })
    trades.push({ channel: name, paymentId, tradeNo, amountMinor })
    const money = { channel: name, paymentId, tradeNo, amountMinor, currency: CURRENCY }
    const who = own ? { userId: own.userId, order: own.order } : {}
    this.outgoing.push({ ...money, ...who, verified: true })
    this.version++
  }

  create({ paymentId, amountMinor }: PaymentRequest) {
    if (!this.payments.has(paymentId))
      this.payments.set(paymentId, { state: 'open', amountMinor, tradeNo: '' })
    this.version++
    return { status: 'created', cashier: 'pay here' } as const
  }

  query(paymentId: string) {
    const payment = this.payments.get(paymentId)
    if (!payment) return { status: 'none' } as const
    if (payment.state === 'open') return { status: 'open', cashier: 'pay here' } as const
    return payment.state === 'closed' ? ({ status: 'closed' } as const) : paidBy(payment)
  }

  close(paymentId: string) {
    const payment = this.payments.get(paymentId)
    if (payment?.state === 'paid') return paidBy(payment)
    if (payment) payment.state = 'closed'
    this.version++
    return { status: 'closed' } as const
  }

  refund(request: RefundRequest): ChannelRefund {
    this.refunds.set(request.refundId, request)
    this.version++
    return { status: 'refunded' }
  }

  /** What it says of a payment when it lies: it leaves it open, or has not heard of it. Never of money that it has. */
  lie<T extends string>(paymentId: string, status: T): { readonly status: T } | ChannelPaid {
    const payment = this.payments.get(paymentId)
    return payment?.state === 'paid' ? paidBy(payment) : { status }
  }

  /** As one process has it: each call an event. */
  provider(process: SimProcess, calls: Calls): PaymentProvider {
    type Answer<K extends keyof PaymentProvider> = PaymentProvider[K] extends (
      ...args: never[]
    ) => infer R
      ? R
      : never
    const call = <K extends keyof PaymentProvider>(
      kind: K,
      id: string,
      act: () => unknown,
      faults: readonly CallFault<unknown>[],
    ) => {
      const label = () => `channel ${this.name}: ${kind} ${id}`
      return calls.send(process, label, act, [...LOST, ...faults]) as Answer<K>
    }
    return {
      channel: this.name,
      create: (r) => call('create', r.paymentId, () => this.create(r), [refused]),
      query: (id) =>
        call('query', id, () => this.query(id), [
          { name: 'says that there is none', done: 0, answer: () => this.lie(id, 'none') },
        ]),
      close: (id) =>
        call('close', id, () => this.close(id), [
          { name: 'says closed, and leaves it', done: 0, answer: () => this.lie(id, 'closed') },
        ]),
      refund: (r) => call('refund', r.refundId, () => this.refund(r), [refused, pending]),
      queryRefund: ({ refundId }) =>
        call(
          'queryRefund',
          refundId,
          () => ({ status: this.refunds.has(refundId) ? 'refunded' : 'none' }),
          [{ name: 'has not heard of it', done: 0, answer: () => ({ status: 'none' }) }],
        ),
    }
  }
}

function paidBy({ tradeNo, amountMinor }: Payment): ChannelPaid {
  return { status: 'paid', tradeNo, amountMinor, currency: CURRENCY }
}

const silence = () => new FlashSaleError('OUTCOME_UNKNOWN', 'the simulated channel is silent')
const LOST: readonly CallFault<unknown>[] = [
  { name: 'done, the answer is lost', done: 1, fails: silence },
  { name: 'lost', done: 0, fails: silence },
  { name: 'done, and never answered', done: 1 },
]
const refused: CallFault<unknown> = {
  name: 'refused',
  done: 0,
  answer: () => ({ status: 'refused', reason: 'simulated' }),
}
const pending: CallFault<unknown> = {
  name: 'done, and said to be on its way',
  done: 1,
  answer: () => ({ status: 'pending' }),
}
