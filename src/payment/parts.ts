import { within } from '../core/background.js'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { OrderBook } from '../core/order-book.js'
import type { LatePayment, PaymentBook, PaymentProvider } from '../core/payment.js'
import type { FlashSaleEvents } from '../core/ports.js'
import { quiet } from '../core/quiet.js'
import type { Ledger } from '../core/reconcile.js'
import { MAX_TEXT_BYTES } from '../core/storable.js'
import type { Move } from '../core/types.js'
import { Silence } from './silence.js'

export interface PaymentsOptions {
  readonly book: PaymentBook
  readonly orders: OrderBook
  /** A StockBucket, to hear of what was paid and closed. Leave it out where there is no Redis (strong mode). */
  readonly ledger?: Pick<Ledger, 'move' | 'reservations'>
  /** One for each channel. */
  readonly providers: readonly PaymentProvider[]
  readonly events?: Pick<FlashSaleEvents, 'onAlert'>
  /**
   * Money for an order that was closed as `unpaid`: a new order if there are units, or always back.
   * @defaultValue `reserve-or-refund`
   */
  readonly latePayment?: LatePayment
  /** How long money waits for its order's row before the number is closed, ms. @defaultValue 600,000 */
  readonly graceMs?: number
  /** Deadline of one call of a channel, ms; past it the outcome is unknown. @defaultValue 10,000 */
  readonly callTimeoutMs?: number
}

/** What the files of this folder work with. */
export class Parts {
  readonly book: PaymentBook
  readonly orders: OrderBook
  readonly latePayment: LatePayment
  readonly graceMs: number
  /** One piece of work makes three calls at most. */
  readonly leaseMs: number
  readonly alert: (code: string, detail: { readonly [key: string]: unknown }) => void
  readonly #ledger: PaymentsOptions['ledger']
  readonly #providers: ReadonlyMap<string, PaymentProvider>
  readonly #callTimeoutMs: number
  readonly #options: PaymentsOptions

  constructor(
    o: PaymentsOptions,
    private readonly silence: Silence | null = null,
  ) {
    check.object(o, 'options')
    this.#options = o
    for (const name of ['book', 'orders'] as const)
      if (typeof o[name] !== 'object' || o[name] === null)
        check.fail('BAD_OPTION', `option ${name}`, 'given', o[name])
    this.book = o.book
    this.orders = o.orders
    this.#ledger = o.ledger
    if (o.ledger !== undefined && typeof o.ledger?.move !== 'function')
      check.fail('BAD_OPTION', 'option ledger', 'a StockBucket', o.ledger)
    this.#providers = providersOf(o.providers)
    const late = o.latePayment ?? 'reserve-or-refund'
    if (late !== 'reserve-or-refund' && late !== 'refund')
      check.fail('BAD_OPTION', 'option latePayment', "'reserve-or-refund' or 'refund'", late)
    this.latePayment = late
    this.graceMs = check.option(o.graceMs, 'graceMs', 600_000, 0, 86_400_000)
    this.#callTimeoutMs = check.option(o.callTimeoutMs, 'callTimeoutMs', 10_000, 10, 600_000)
    this.leaseMs = 4 * this.#callTimeoutMs
    const { events } = o
    const onAlert = events?.onAlert
    this.alert = quiet(
      'events.onAlert',
      typeof onAlert === 'function' ? onAlert.bind(events) : onAlert,
    )
  }

  /** The same for one round of a keeper, in which nobody waits for a silent channel again and again. */
  forRound(): Parts {
    return new Parts(this.#options, new Silence())
  }

  /** It is asked no more in this round: `ask` says `unknown` at once. */
  isSilent(channel: string): boolean {
    return this.silence?.isOf(channel) === true
  }

  /** Whoever has slept through half of his lease makes no call: by the time it arrived, somebody else might have made his. */
  isLate(takenAt: number): boolean {
    return performance.now() - takenAt > this.leaseMs / 2
  }

  /** Throws `BAD_INPUT` for a channel that is not ours. */
  provider(channel: unknown): PaymentProvider {
    const provider = this.#providers.get(channel as string)
    const names = [...this.#providers.keys()].join(', ')
    return provider ?? check.fail('BAD_INPUT', 'channel', `one of ${names}`, channel)
  }

  /** What the channel answers; `unknown` when it throws, answers too late, or says what nobody can read. */
  async ask<T extends { readonly status: string }>(
    channel: string,
    statuses: readonly T['status'][],
    call: (provider: PaymentProvider, o: { readonly signal: AbortSignal }) => Promise<T>,
  ): Promise<T | 'unknown'> {
    if (this.isSilent(channel)) return 'unknown'
    const askedAt = performance.now()
    const answer = await this.#ask(channel, statuses, call)
    const silent = answer === 'unknown' && performance.now() - askedAt >= this.#callTimeoutMs / 2
    this.silence?.note(channel, silent)
    return answer
  }

  async #ask<T extends { readonly status: string }>(
    channel: string,
    statuses: readonly T['status'][],
    call: (provider: PaymentProvider, o: { readonly signal: AbortSignal }) => Promise<T>,
  ): Promise<T | 'unknown'> {
    const abort = new AbortController()
    const late = () => {
      abort.abort()
      return 'unknown' as const
    }
    try {
      const provider = this.provider(channel)
      const asked = (async () => call(provider, { signal: abort.signal }))()
      const answer = await within(asked, this.#callTimeoutMs, late)
      if (answer === 'unknown' || readable(answer, statuses)) return answer
      this.alert('payment-channel-unreadable', { channel, answer })
    } catch (error) {
      this.alert('payment-channel-failed', { channel, error })
    }
    return 'unknown'
  }

  /**
   * Tells Redis what the database has decided. When it cannot be told nothing is lost: closings wait in the outbox, and
   * the reconciler repeats the rest.
   */
  async tell(moves: readonly Move[]): Promise<void> {
    if (!this.#ledger || moves.length === 0) return
    try {
      await this.#ledger.move(moves)
    } catch (error) {
      // No keys, not yet or no more: nothing to be told. The relay knows when a closing needs no Redis.
      if (!(error instanceof FlashSaleError && error.code === 'NOT_WARMED'))
        this.alert('payment-redis-failed', { error })
      return
    }
    const released = moves.filter((m) => m.to === 'released').map((m) => m.reservation.orderNo)
    if (released.length > 0) await this.orders.released(released)
  }

  /** What Redis remembers of a number; null when it does not know it, or there is none. */
  async remembered(ref: { activityId: string; skuId: string }, userId: string, orderNo: string) {
    const found = await this.#ledger?.reservations(ref, [{ userId, orderNo }])
    return found === undefined || found === 'not-warmed' ? null : (found[0] ?? null)
  }
}

function providersOf(list: unknown): ReadonlyMap<string, PaymentProvider> {
  if (!Array.isArray(list) || list.length === 0)
    check.fail('BAD_OPTION', 'option providers', 'a list of at least one', list)
  const providers = new Map<string, PaymentProvider>()
  for (const provider of list as readonly PaymentProvider[]) {
    const channel = provider?.channel
    if (typeof channel !== 'string' || !/^[!-{}~]{1,64}$/.test(channel) || providers.has(channel))
      check.fail('BAD_OPTION', 'option providers', 'providers with a channel of their own', channel)
    providers.set(channel, provider)
  }
  return providers
}

/**
 * A channel is another program: an answer that is none of those agreed, money that is no amount, and a cashier that cannot be
 * stored count for nothing.
 */
function readable(answer: unknown, statuses: readonly string[]): boolean {
  if (typeof answer !== 'object' || answer === null) return false
  const { status, cashier, tradeNo, amountMinor, currency } = answer as Record<string, unknown>
  if (!statuses.includes(status as string)) return false
  if (status === 'created' || status === 'open') return isCashier(cashier)
  return status !== 'paid' || isMoney({ tradeNo, amountMinor, currency })
}

function isCashier(cashier: unknown): boolean {
  try {
    check.jsonText(cashier, 'cashier', MAX_TEXT_BYTES)
    return true
  } catch {
    return false
  }
}

/** Whether it can be booked: a trade number, a positive whole amount, a currency. */
export function isMoney(m: { tradeNo: unknown; amountMinor: unknown; currency: unknown }): boolean {
  try {
    check.id(m.tradeNo, 'tradeNo')
    check.int(m.amountMinor, 'amountMinor', 1, Number.MAX_SAFE_INTEGER)
    check.currency(m.currency, 'currency')
    return true
  } catch {
    return false
  }
}
