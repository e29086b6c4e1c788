import * as check from '../../core/check.js'
import { describe } from '../../core/describe.js'
import type {
  Capture,
  Captured,
  DuePayment,
  OverdueOrder,
  PaymentBook,
  PaymentOpened,
  RefundDecided,
  RefundJob,
  StoredPayment,
} from '../../core/payment.js'
import type { PaymentRow } from '../../core/reconcile.js'
import { MAX_TEXT_BYTES, storable } from '../../core/storable.js'
import type { Json, SkuRef } from '../../core/types.js'
import { orderNos } from '../order/input.js'
import type { OnePer } from '../order/rows.js'
import { Database, type DatabaseOptions } from '../sql/database.js'
import { HookFailed } from '../sql/failures.js'
import { capture } from './capture.js'
import { hasten, overdueOrders, putOff, takePayments } from './due.js'
import { findPayments, snapshot } from './find.js'
import type { PaymentHooks } from './hooks.js'
import { openPayment, paymentOpened, paymentUnfounded, paymentWithdrawn } from './open.js'
import { decideRefund, endRefund, takeRefunds } from './refund.js'
import { paymentsWhere, storedPayment } from './rows.js'

export interface KnexPaymentBookOptions extends DatabaseOptions {
  /** The host's part of the transactions. */
  readonly hooks?: PaymentHooks
  /** The order book's. @defaultValue `activity+sku` */
  readonly onePer?: OnePer
}

/**
 * {@link PaymentBook} beside a `KnexOrderBook` of the same database and prefix; `KnexOrderBook.migrate` makes the tables. Throws
 * what the order book throws, under the same rules.
 */
export class KnexPaymentBook implements PaymentBook {
  readonly #database: Database
  readonly #hooks: PaymentHooks
  readonly #onePer: OnePer

  constructor(o: KnexPaymentBookOptions) {
    this.#database = new Database(o)
    this.#hooks = o.hooks ?? {}
    if (o.onePer !== undefined && o.onePer !== 'activity' && o.onePer !== 'activity+sku')
      check.fail('BAD_OPTION', 'option onePer', "'activity+sku' or 'activity'", o.onePer)
    this.#onePer = o.onePer ?? 'activity+sku'
  }

  /** Also throws `BAD_OPTION`, with nothing written, for an order that was booked under another `onePer`. */
  async open(q: Parameters<PaymentBook['open']>[0]): Promise<PaymentOpened> {
    check.object(q, 'question')
    return openPayment(this.#database, this.#onePer, {
      orderNo: check.id(q.orderNo, 'orderNo'),
      userId: check.userIdOf(q.userId),
      channel: check.id(q.channel, 'channel'),
      paymentId: check.id(q.paymentId, 'paymentId'),
      leaseMs: lease(q.leaseMs),
    })
  }

  /** `cashier`: JSON of at most 60,000 bytes. */
  async opened(paymentId: string, cashier: Json): Promise<void> {
    check.jsonText(cashier, 'cashier', MAX_TEXT_BYTES)
    await paymentOpened(this.#database, check.id(paymentId, 'paymentId'), cashier)
  }

  async withdrawn(paymentId: string, tries?: number): Promise<void> {
    const id = check.id(paymentId, 'paymentId')
    await paymentWithdrawn(this.#database, id, tries === undefined ? tries : fence(tries))
  }

  async capture(c: Capture, o: Parameters<PaymentBook['capture']>[1]): Promise<Captured> {
    const money = checkedCapture(c)
    check.object(o, 'options')
    const options = {
      latePayment: check.oneOf(o.latePayment, 'latePayment', ['reserve-or-refund', 'refund']),
      newOrderNo: check.id(o.newOrderNo, 'newOrderNo'),
      newPaymentId: check.id(o.newPaymentId, 'newPaymentId'),
    }
    const parts = { database: this.#database, hooks: this.#hooks, onePer: this.#onePer }
    const place = (hold?: string) =>
      this.#database.write((tx) =>
        capture(tx, parts, money, hold === undefined ? options : { ...options, hold }),
      )
    try {
      return await place()
    } catch (error) {
      // The money is here, whatever the host's code makes of it.
      if (error instanceof HookFailed) return place(storable(describe(error.cause), 500))
      throw error
    }
  }

  async unfounded(paymentId: string): Promise<void> {
    await paymentUnfounded(this.#database, check.id(paymentId, 'paymentId'))
  }

  /** Throws `BAD_INPUT`, with nothing written, for an id that was used for another refund. */
  async decideRefund(q: Parameters<PaymentBook['decideRefund']>[0]): Promise<RefundDecided> {
    check.object(q, 'refund')
    const question = {
      refundId: check.id(q.refundId, 'refundId'),
      paymentId: check.id(q.paymentId, 'paymentId'),
      amountMinor: amount(q.amountMinor),
      reason: check.text(q.reason, 'reason', 200),
      made: q.made === true,
    }
    try {
      return await decideRefund(this.#database, this.#hooks, question)
    } catch (error) {
      throw error instanceof HookFailed ? error.cause : error
    }
  }

  async findPayment(paymentId: string): Promise<StoredPayment | null> {
    return this.#one('payment_id = ?', [check.id(paymentId, 'paymentId')])
  }

  async findTrade(channel: string, tradeNo: string): Promise<StoredPayment | null> {
    const trade = [check.id(channel, 'channel'), check.id(tradeNo, 'tradeNo')]
    return this.#one('channel = ? AND trade_no = ?', trade)
  }

  async takePayments(o: { limit: number; leaseMs: number }): Promise<readonly DuePayment[]> {
    check.object(o, 'options')
    return takePayments(this.#database, { limit: limit(o.limit), leaseMs: lease(o.leaseMs) })
  }

  async putOff(paymentId: string, tries: number, afterMs: number | null): Promise<void> {
    const after = afterMs === null ? null : check.int(afterMs, 'afterMs', 0, 86_400_000)
    await putOff(this.#database, check.id(paymentId, 'paymentId'), fence(tries), after)
  }

  async hasten(numbers: readonly string[]): Promise<void> {
    await hasten(this.#database, orderNos(numbers))
  }

  async takeRefunds(o: Parameters<PaymentBook['takeRefunds']>[0]): Promise<readonly RefundJob[]> {
    check.object(o, 'options')
    const page = { limit: limit(o.limit), leaseMs: lease(o.leaseMs) }
    if (o.refundId === undefined) return takeRefunds(this.#database, page)
    return takeRefunds(this.#database, { ...page, refundId: check.id(o.refundId, 'refundId') })
  }

  async endRefund(
    job: RefundJob,
    outcome: Parameters<PaymentBook['endRefund']>[1],
  ): Promise<boolean> {
    check.object(job, 'job')
    check.id(job.refundId, 'refundId')
    check.object(outcome, 'outcome')
    return endRefund(this.#database, job, outcome)
  }

  async overdue(o: Parameters<PaymentBook['overdue']>[0]): Promise<readonly OverdueOrder[]> {
    check.object(o, 'options')
    if (o.after === undefined) return overdueOrders(this.#database, limit(o.limit))
    check.object(o.after, 'after')
    const payBy = check.int(o.after.payBy, 'after.payBy', 0, Number.MAX_SAFE_INTEGER)
    const orderNo = check.id(o.after.orderNo, 'after.orderNo')
    return overdueOrders(this.#database, limit(o.limit), { payBy, orderNo })
  }

  /** Holds one connection of the pool until the loop ends or is left. */
  snapshot(ref: SkuRef): AsyncGenerator<PaymentRow> {
    return snapshot(this.#database, check.skuRef(ref))
  }

  async find(numbers: readonly string[]): Promise<readonly PaymentRow[]> {
    return findPayments(this.#database, orderNos(numbers))
  }

  async #one(where: string, bindings: readonly string[]): Promise<StoredPayment | null> {
    const { tables } = this.#database
    const [found] = await this.#database.read((on) => paymentsWhere(on, tables, where, bindings))
    return found ? storedPayment(found) : null
  }
}

const lease = (ms: number) => check.int(ms, 'leaseMs', 1, 3_600_000)
const fence = (tries: number) => check.int(tries, 'tries', 0, 1e9)
const limit = (n: number) => check.int(n, 'limit', 1, 1_000)
const amount = (minor: number) => check.int(minor, 'amountMinor', 1, Number.MAX_SAFE_INTEGER)

function checkedCapture(c: Capture): Capture {
  check.object(c, 'capture')
  if (c.order !== null) check.object(c.order, 'capture.order')
  return {
    channel: check.id(c.channel, 'channel'),
    paymentId: check.id(c.paymentId, 'paymentId'),
    tradeNo: check.id(c.tradeNo, 'tradeNo'),
    amountMinor: amount(c.amountMinor),
    currency: check.currency(c.currency, 'currency'),
    userId: c.userId === null ? null : check.userIdOf(c.userId),
    order: c.order && {
      ...check.skuRef(c.order),
      orderNo: check.id(c.order.orderNo, 'order.orderNo'),
    },
    confirmed: c.confirmed === true,
  }
}
