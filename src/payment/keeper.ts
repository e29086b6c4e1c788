import { every } from '../core/background.js'
import * as check from '../core/check.js'
import type { DuePayment, StoredPayment } from '../core/payment.js'
import type { Background } from '../core/ports.js'
import { BACKOFF_MS, MAX_TRIES } from '../core/tries.js'
import { closeUnbooked } from './close.js'
import { closeOverdue } from './closings.js'
import { lookUp } from './create.js'
import { allInLanes } from './lanes.js'
import { askAbout, placeMoney, withdraw } from './notice.js'
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

/**
 * Closes orders at their deadline (关单), and carries on what a crash or a silent channel left behind: payments unknown to be
 * at the channel, money that waits for its order, anomalies, refunds. Any number of processes may run one.
 */
export class PaymentKeeper implements Background {
  readonly #parts: Parts
  /** One for each part of a round: a channel that is silent in one does not hold up the others. */
  readonly #loops: readonly Background[]
  readonly #concurrency: number
  readonly #channelGraceMs: number

  constructor(parts: Parts, o: PaymentKeeperOptions) {
    this.#parts = parts
    this.#concurrency = check.option(o.concurrency, 'concurrency', 8, 1, 256)
    this.#channelGraceMs = check.option(o.channelGraceMs, 'channelGraceMs', 60_000, 0, 86_400_000)
    const everyMs = check.option(o.everyMs, 'everyMs', 1_000, 10, 60_000)
    const onError = (error: unknown) => parts.alert('payment-keeper-failed', { error })
    this.#loops = this.#phases().map((work) => every({ everyMs, work, onError }))
  }

  async start(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.start()))
  }

  async stop(o?: { readonly drainMs?: number }): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop(o)))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  /** One round. What is not done in it is done in the next; what fails is alerted, and does not hold up the others. */
  async run(signal: AbortSignal = new AbortController().signal): Promise<void> {
    await allInLanes(this.#parts, 3, this.#phases(), null, (phase) => phase(signal))
  }

  #phases(): readonly ((signal: AbortSignal) => Promise<void>)[] {
    return [(s) => this.#closeOverdue(s), (s) => this.#payments(s), (s) => this.#refunds(s)]
  }

  async #closeOverdue(signal: AbortSignal): Promise<void> {
    const o = { concurrency: this.#concurrency, channelGraceMs: this.#channelGraceMs }
    await closeOverdue(this.#parts.forRound(), o, signal)
  }

  async #payments(signal: AbortSignal): Promise<void> {
    const parts = this.#parts.forRound()
    const some = { limit: this.#concurrency, leaseMs: parts.leaseMs }
    await this.#drain(
      signal,
      () => parts.book.takePayments(some),
      (due) => lookAfter(parts, due),
    )
  }

  async #refunds(signal: AbortSignal): Promise<void> {
    const parts = this.#parts.forRound()
    const some = { limit: this.#concurrency, leaseMs: parts.leaseMs }
    await this.#drain(
      signal,
      () => parts.book.takeRefunds(some),
      (job, takenAt) => makeRefund(parts, job, takenAt),
    )
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
      await allInLanes(this.#parts, this.#concurrency, items, null, (item) => work(item, takenAt))
      full = items.length === this.#concurrency
    }
  }
}

async function lookAfter(parts: Parts, due: DuePayment): Promise<void> {
  const { payment, tries, order } = due
  if (await tryOnce(parts, due)) return
  const afterMs = BACKOFF_MS[Math.min(tries, BACKOFF_MS.length) - 1] as number
  const often = tries >= MAX_TRIES
  if (often && payment.status === 'created') await tellUnknown(parts, due)
  // What may be somebody's money is never given up; only what names no order is left to its task, for it has no deadline.
  const nameless = payment.status === 'anomaly' && !order
  const over = often && nameless && !parts.isSilent(payment.channel)
  await parts.book.putOff(payment.paymentId, tries, over ? null : afterMs)
}

/** Whether nothing is left to do. */
async function tryOnce(parts: Parts, due: DuePayment): Promise<boolean> {
  const { payment, order, payable } = due
  switch (payment.status) {
    case 'received':
      return placeReceived(parts, due)
    case 'anomaly':
    case 'created':
      // Past its deadline: the channel is asked by whoever closes the order.
      if (order?.status === 'confirmed' && !payable) return false
      if (payment.status === 'created' && payable) return lookAt(parts, due)
      // What names no order may be a payment of another shop's at this channel, which is not ours to close.
      if (payment.status === 'anomaly' && (payable || !order)) return askAbout(parts, payment)
      return (await withdraw(parts, payment)) !== 'unknown'
    default:
      return true
  }
}

/** A payment that is not known to be at the channel, of an order that may still be paid. */
async function lookAt(parts: Parts, { payment, order, tries }: DuePayment): Promise<boolean> {
  const { channel, paymentId, orderNo, userId, amountMinor, currency } = payment
  const payBy = order?.payBy ?? 0
  const request = { paymentId, orderNo, userId, amountMinor, currency, payBy }
  const found = await lookUp(parts, channel, request, tries)
  if (found === 'none') await parts.book.withdrawn(paymentId, tries)
  return found === 'none' || found.status !== 'unknown'
}

/** A person can ask the channel by other ways; it is asked from here all the same. */
async function tellUnknown(parts: Parts, { payment, tries }: DuePayment): Promise<void> {
  const { paymentId, channel, orderNo, amountMinor, currency } = payment
  const detail = { paymentId, channel, orderNo, amountMinor, currency }
  await parts.orders.addManualTask({ kind: 'payment-unknown', ref: paymentId, detail })
  if (tries === MAX_TRIES) parts.alert('payment-unknown', detail)
}

/** Money without an order row waits the grace time; then the number is closed, and what was first there decides. */
async function placeReceived(
  parts: Parts,
  { payment, order, heldMs }: DuePayment,
): Promise<boolean> {
  const { activityId, skuId, orderNo, userId } = payment
  if (!order) {
    if (heldMs < parts.graceMs) return false
    await closeGhost(parts, payment)
  }
  const captured = await placeMoney(parts, {
    channel: payment.channel,
    paymentId: payment.channelPaymentId,
    tradeNo: payment.tradeNo as string,
    amountMinor: payment.capturedMinor,
    currency: payment.currency,
    userId,
    order: { activityId, skuId, orderNo },
    confirmed: false,
  })
  if (captured.status === 'anomaly') await askAbout(parts, captured.payment)
  return captured.status !== 'waiting'
}

async function closeGhost(parts: Parts, payment: StoredPayment): Promise<void> {
  const { activityId, skuId, orderNo, userId } = payment
  const known = await parts.remembered({ activityId, skuId }, userId, orderNo)
  const { quantity, bucket, version, reservedAt } = known ?? nobodyKnows()
  const ref = { activityId, skuId, orderNo, userId }
  const reservation = { ...ref, quantity, bucket, version, reservedAt }
  await closeUnbooked(parts, reservation, 'never-appeared')
}

/** A reservation that Redis does not remember: its row holds no units, so these say nothing. */
function nobodyKnows() {
  return { quantity: 1, bucket: 0, version: 'unknown', reservedAt: Date.now() }
}
