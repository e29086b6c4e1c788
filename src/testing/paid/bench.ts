import { equal, fail } from 'node:assert/strict'
import { within } from '../../core/background.js'
import { newOrderNo } from '../../core/order-no.js'
import type { Captured, RefundDecided } from '../../core/payment.js'
import type { Activity, Reservation } from '../../core/types.js'
import { UNPAID } from '../../core/unpaid.js'
import type {
  PaymentBooks,
  PaymentHooksLike,
  PaymentHooksUnderTest,
  PaymentToBook,
} from '../payment-hooks-suite.js'

const PRICE = 990
/** How long a hook may take before it counts as one that waits for what never comes. */
const PATIENCE_MS = 5_000

/** What the suite does after the host's hook, in the same transaction. A throw undoes both. */
export interface Beside {
  paid?(run: number, payment: PaymentToBook): void
  refunded?(run: number): void
}

/** Money for an order, as a channel says it. */
export interface Money {
  readonly orderNo: string
  readonly userId: string
  readonly paymentId: string
  readonly tradeNo: string
}

/** A host's payment hooks on the bench, with a sale of its own. */
export class PaidBench {
  #buyers = 0

  constructor(readonly under: PaymentHooksUnderTest<unknown>) {}

  /** A till: both books with the host's hooks, and a sale whose orders are confirmed when they are asked for. */
  async till(beside: Beside = {}): Promise<Till> {
    const { onPaid, onRefunded } = this.under.hooks
    const runs = { paid: 0, refunded: 0 }
    const hooks: PaymentHooksLike<unknown> = {
      onPaid: async (trx, order, payment) => {
        await patiently('onPaid', () => onPaid?.call(this.under.hooks, trx, order, payment))
        beside.paid?.(++runs.paid, payment)
      },
      onRefunded: async (trx, order, refundId) => {
        await patiently('onRefunded', () =>
          onRefunded?.call(this.under.hooks, trx, order, refundId),
        )
        beside.refunded?.(++runs.refunded)
      },
    }
    const books = this.under.books(hooks)
    const activity = activityOf()
    await books.orders.prepare(activity)
    const audit = { actor: 'suite', reason: 'a test of the suite' }
    await books.control.set(activity.activityId, 'open', audit)
    return new Till(books, (n) =>
      Array.from({ length: n }, () => ({
        ...{ orderNo: newOrderNo(), activityId: activity.activityId, skuId: 's1' },
        ...{ userId: `suite-${++this.#buyers}`, quantity: 1, bucket: 0, version: 'v1' },
        reservedAt: Date.now(),
        ...this.under.good,
      })),
    )
  }

  async begun(orderNo: string, times: number, after: string): Promise<void> {
    const found = await this.under.begun(orderNo)
    equal(found, times, `how often it is begun for the order after ${after}`)
  }

  async close(): Promise<void> {
    await this.under.close()
  }
}

/** Orders, and the money for them. */
export class Till {
  constructor(
    private readonly books: PaymentBooks,
    private readonly reservations: (count: number) => readonly Reservation[],
  ) {}

  /** Confirmed orders, and money that is on its way for each. */
  async orders(count: number): Promise<readonly Money[]> {
    const { orders, payments } = this.books
    const some = this.reservations(count)
    for (const verdict of await orders.confirm(some))
      if (verdict.status !== 'confirmed')
        fail(`the host takes no order of the suite: ${JSON.stringify(verdict)}; name a good one`)
    const money = some.map(({ orderNo, userId }) => {
      const number = newOrderNo()
      return { orderNo, userId, paymentId: `p-${number}`, tradeNo: `t-${number}` }
    })
    for (const { orderNo, userId, paymentId } of money) {
      await payments.open({ orderNo, userId, channel: 'suite', paymentId, leaseMs: 60_000 })
      await payments.opened(paymentId, {})
    }
    return money
  }

  /** A channel says that it has it. */
  async pay({ paymentId, tradeNo, userId }: Money): Promise<Captured> {
    return this.books.payments.capture(
      {
        ...{ channel: 'suite', paymentId, tradeNo, userId, order: null, confirmed: true },
        ...{ amountMinor: PRICE, currency: 'CNY' },
      },
      { latePayment: 'reserve-or-refund', newOrderNo: newOrderNo(), newPaymentId: newOrderNo() },
    )
  }

  /** The deadline passes before the money comes. */
  async letItPass({ orderNo }: Money): Promise<void> {
    const [verdict] = await this.books.orders.closeUnpaid([orderNo], UNPAID)
    equal(verdict?.status, 'closed', 'an order whose deadline passed')
  }

  async refund({ paymentId }: Money, refundId: string): Promise<RefundDecided> {
    const amountMinor = PRICE
    const asked = { refundId, paymentId, amountMinor, reason: 'the suite', made: false }
    return this.books.payments.decideRefund(asked)
  }
}

function activityOf(): Activity {
  const now = Date.now()
  return {
    ...{ activityId: `suite-${newOrderNo()}`, version: 'v1', mode: 'queued', tokens: 'off' },
    ...{ opensAt: now - 60_000, endsAt: now + 3_600_000, payWithinMs: 900_000, maxPerOrder: 1 },
    skus: [{ skuId: 's1', units: 1_000, priceMinor: PRICE, currency: 'CNY' }],
  }
}

async function patiently(name: string, run: () => Promise<void> | undefined): Promise<void> {
  const running = (async () => run())()
  await within(running, PATIENCE_MS, () =>
    fail(
      `${name} was not over within ${PATIENCE_MS} ms on a pool of one connection: does it ask for another than trx?`,
    ),
  )
}
