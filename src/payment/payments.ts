import type { PaymentNotice, RefundDecided } from '../core/payment.js'
import { type CancelQuestion, type CloseAnswer, cancel, close } from './close.js'
import { type CreateQuestion, createPayment, type PaymentCreated } from './create.js'
import { PaymentKeeper, type PaymentKeeperOptions } from './keeper.js'
import { type NoticeAnswer, takeNotice } from './notice.js'
import { Parts, type PaymentsOptions } from './parts.js'
import { type ChargebackNotice, chargeback, type RefundQuestion, refund } from './refunds.js'

/**
 * Money for orders: asked for, received, given back. Every payment received ends in one PAID order or in refunds that add up
 * to it, and until then in a row that says why not.
 *
 * What a buyer or a channel can be told is a `status`. Methods check their input first (`BAD_INPUT`, nothing written) and
 * throw what the order book throws; only `notice` answers `retry-later` instead, because a channel comes again.
 */
export class Payments {
  readonly #parts: Parts

  constructor(o: PaymentsOptions) {
    this.#parts = new Parts(o)
  }

  /** Makes the payment of a CONFIRMED order at a channel; the same one each time. */
  async create(q: CreateQuestion): Promise<PaymentCreated> {
    return createPayment(this.#parts, q)
  }

  /** Takes a channel's callback; the host has checked its signature. Any number of times, in any order. */
  async notice(n: PaymentNotice): Promise<NoticeAnswer> {
    return takeNotice(this.#parts, n)
  }

  /**
   * Gives money back, once for each refund id. Throws `BAD_INPUT` for an id that was used for another refund. A refund that
   * was `parked` is begun again by asking for it again.
   */
  async refund(q: RefundQuestion): Promise<RefundDecided> {
    return refund(this.#parts, q)
  }

  /** Books money that the channel has taken back by itself. */
  async chargeback(n: ChargebackNotice): Promise<RefundDecided> {
    return chargeback(this.#parts, n)
  }

  /** Closes an unpaid order, or a number that has no row yet, for its buyer; the units go back. */
  async cancel(q: CancelQuestion): Promise<CloseAnswer> {
    return cancel(this.#parts, q)
  }

  /** Closes an unpaid order for another reason (1 to 200 characters), as a risk rule or a saga does. */
  async close(q: { readonly orderNo: string; readonly reason: string }): Promise<CloseAnswer> {
    return close(this.#parts, q?.orderNo, q?.reason)
  }

  /** Makes what looks after deadlines, refunds and everything left behind; the host starts and stops it. */
  keeper(o: PaymentKeeperOptions = {}): PaymentKeeper {
    return new PaymentKeeper(this.#parts, o)
  }
}
