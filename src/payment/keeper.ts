import { every } from '../core/background.js'
import * as check from '../core/check.js'
import type { DuePayment, OverdueOrder, StoredPayment } from '../core/payment.js'
import type { Background } from '../core/ports.js'
import { BACKOFF_MS, MAX_TRIES } from '../core/tries.js'
import { UNPAID } from '../core/unpaid.js'
import { closeOrders, closeUnbooked } from './close.js'
import { lookUp } from './create.js'
import { askAbout, placeMoney } from './notice.js'
import type { Parts } from './parts.js'
import { makeRefund } from './refunds.js'

export interface PaymentKeeperOptions {
  /** How often it looks, ms. @defaultValue 1,000 */
  readonly everyMs?: number
  /** Orders, payments and refunds looked after at once. @defaultValue 8 */
  readonly concurrency?: number
  /**
   * A channel that does not say whether an overdue order was paid holds up its closing so long, ms; then the order is closed,
   * and money that came all the same is late. @defaultValue 60,000
   */
  readonly channelGraceMs?: number
}

const PAGE = 256

/**
 * Closes orders at their deadline (关单), and carries on what a crash or a silent channel left behind: payments unknown to be
 * at the channel, money that waits for its order, anomalies, refunds. Any number of processes may run one.
 */
export class PaymentKeeper implements Background {
  readonly #parts: Parts
  readonly #loop: Background
  readonly #concurrency: number
  readonly #channelGraceMs: number

  constructor(parts: Parts, o: PaymentKeeperOptions) {
    this.#parts = parts
    this.#concurrency = check.option(o.concurrency, 'concurrency', 8, 1, 256)
    this.#channelGraceMs = check.option(o.channelGraceMs, 'channelGraceMs', 60_000, 0, 86_400_000)
    this.#loop = every({
      everyMs: check.option(o.everyMs, 'everyMs', 1_000, 10, 60_000),
      work: (signal) => this.run(signal),
      onError: (error) => parts.alert('payment-keeper-failed', { error }),
    })
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  stop(o?: { readonly drainMs?: number }): Promise<void> {
    return this.#loop.stop(o)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  /** One round. What is not done in it is done in the next; one that fails does not hold up the others. */
  async run(signal: AbortSignal = new AbortController().signal): Promise<void> {
    const { book, leaseMs } = this.#parts
    const some = { limit: this.#concurrency, leaseMs }
    await this.#closeOverdue(signal)
    await this.#drain(
      signal,
      () => book.takePayments(some),
      (due) => this.#lookAfter(due),
    )
    await this.#drain(
      signal,
      () => book.takeRefunds(some),
      (job, takenAt) => makeRefund(this.#parts, job, takenAt),
    )
  }

  /** The channel first: money that is there pays the order, and nobody can pay it any more once it is closed. */
  async #closeOverdue(signal: AbortSignal): Promise<void> {
    for (let full = true; full && !signal.aborted; ) {
      const overdue = await this.#parts.book.overdue({ limit: PAGE })
      const closing: string[] = []
      await this.#each(overdue, signal, async (order) => {
        if (await this.#mayClose(order)) closing.push(order.orderNo)
      })
      if (closing.length > 0) await closeOrders(this.#parts, closing, UNPAID)
      full = closing.length === PAGE
    }
  }

  async #mayClose({ lateMs, payments }: OverdueOrder): Promise<boolean> {
    const states = await Promise.all(
      payments.map((p) => (p.status === 'created' ? this.#withdraw(p) : ('paid' as const))),
    )
    if (states.includes('paid')) return false
    return !states.includes('unknown') || lateMs >= this.#channelGraceMs
  }

  async #withdraw(payment: StoredPayment): Promise<'closed' | 'paid' | 'unknown'> {
    const { channel, paymentId } = payment
    const answer = await this.#parts.ask(channel, ['closed', 'paid'], (provider, o) =>
      provider.close(paymentId, o),
    )
    if (answer === 'unknown') return answer
    if (answer.status === 'closed') await this.#parts.book.withdrawn(paymentId)
    else {
      const { tradeNo, amountMinor, currency } = answer
      const money = { channel, paymentId, tradeNo, amountMinor, currency }
      await placeMoney(this.#parts, { ...money, userId: null, order: null, confirmed: true })
    }
    return answer.status
  }

  async #lookAfter(due: DuePayment): Promise<void> {
    const { book } = this.#parts
    const { payment, tries } = due
    const done = await this.#tryOnce(due)
    if (done) return
    const afterMs = BACKOFF_MS[Math.min(tries, BACKOFF_MS.length) - 1] as number
    // Money is never given up; what only may be money is left to its task.
    const over = tries >= MAX_TRIES && payment.status !== 'received'
    if (over && payment.status === 'created') await book.withdrawn(payment.paymentId)
    else await book.putOff(payment.paymentId, tries, over ? null : afterMs)
  }

  /** Whether nothing is left to do. */
  async #tryOnce(due: DuePayment): Promise<boolean> {
    const { payment, order, payable } = due
    switch (payment.status) {
      case 'anomaly':
        return askAbout(this.#parts, payment)
      case 'received':
        return this.#place(due)
      case 'created': {
        if (!order || !payable) return (await this.#withdraw(payment)) !== 'unknown'
        const { channel, paymentId, orderNo, userId, amountMinor, currency } = payment
        const { payBy } = order
        const request = { paymentId, orderNo, userId, amountMinor, currency, payBy }
        const found = await lookUp(this.#parts, channel, request)
        if (found === 'none') await this.#parts.book.withdrawn(paymentId)
        return found === 'none' || found.status !== 'unknown'
      }
      default:
        return true
    }
  }

  /** Money without an order row waits the grace time; then the number is closed, and what was first there decides. */
  async #place({ payment, order, heldMs }: DuePayment): Promise<boolean> {
    const { channel, paymentId, orderNo, activityId, skuId, userId, currency } = payment
    if (!order) {
      if (heldMs < this.#parts.graceMs) return false
      const known = await this.#parts.remembered({ activityId, skuId }, userId, orderNo)
      const { quantity, bucket, version, reservedAt } = known ?? nobodyKnows()
      const ref = { activityId, skuId, orderNo, userId }
      const reservation = { ...ref, quantity, bucket, version, reservedAt }
      await closeUnbooked(this.#parts, reservation, 'never-appeared')
    }
    const captured = await placeMoney(this.#parts, {
      channel,
      paymentId,
      tradeNo: payment.tradeNo as string,
      amountMinor: payment.capturedMinor,
      currency,
      userId,
      order: { activityId, skuId, orderNo },
      confirmed: false,
    })
    if (captured.status === 'anomaly') await askAbout(this.#parts, captured.payment)
    return captured.status !== 'waiting'
  }

  /** Takes no more at a time than it works on at once, so that no lease runs out before its turn comes. */
  async #drain<T>(
    signal: AbortSignal,
    take: () => Promise<readonly T[]>,
    work: (item: T, takenAt: number) => Promise<unknown>,
  ): Promise<void> {
    for (let full = true; full && !signal.aborted; ) {
      const takenAt = performance.now()
      const items = await take()
      await this.#each(items, null, (item) => work(item, takenAt))
      full = items.length === this.#concurrency
    }
  }

  async #each<T>(
    items: readonly T[],
    signal: AbortSignal | null,
    work: (item: T) => Promise<unknown>,
  ): Promise<void> {
    let next = 0
    const lane = async () => {
      while (next < items.length && !signal?.aborted) {
        try {
          await work(items[next++] as T)
        } catch (error) {
          this.#parts.alert('payment-keeper-failed', { error })
        }
      }
    }
    await Promise.all(Array.from({ length: this.#concurrency }, lane))
  }
}

/** A reservation that Redis does not remember: its row holds no units, so these say nothing. */
function nobodyKnows() {
  return { quantity: 1, bucket: 0, version: 'unknown', reservedAt: Date.now() }
}
