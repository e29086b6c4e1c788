import { pause } from '../core/background.js'
import type { OrderBook, OrderRow } from '../core/order-book.js'
import type { PaymentRecords, PaymentRow } from '../core/reconcile.js'
import type { SkuRef } from '../core/types.js'
import { type FindingList, MAX_LISTED } from './finding-list.js'
import { type Finding, findingOf, type SaleFindingKind } from './findings.js'
import { RecordTable } from './record-table.js'
import { stopIfAborted } from './stop.js'
import type { WaitingSince } from './waiting-since.js'

interface PaymentParts {
  readonly payments: PaymentRecords
  readonly orders: Pick<OrderBook, 'find' | 'snapshot'>
  readonly waiting: WaitingSince
  readonly settleMs: number
  readonly signal: AbortSignal | undefined
}

const PAGE = 256

/** Money against orders: every payment in one PAID order or one refund, every PAID order by one payment. */
export class PaymentComparison {
  /** PAID orders that cost something, with their amount where a record would have its owner. */
  readonly #paid = new RecordTable()

  constructor(
    private readonly parts: PaymentParts,
    private readonly ref: SkuRef,
    private readonly found: FindingList,
  ) {}

  onOrder(row: OrderRow): void {
    if (row.status === 'paid' && Number(row.amountMinor) > 0)
      this.#paid.put(row.orderNo, 'paid', 1, money(row.amountMinor, row.currency))
  }

  /**
   * After all orders. Suspects are asked again by number, twice: order and payment change together, but are read apart. Not
   * while the payments are read, which holds a connection.
   */
  async run(): Promise<void> {
    const suspects = new Set<string>()
    for await (const payment of this.parts.payments.snapshot(this.ref)) {
      stopIfAborted(this.parts.signal)
      for (const f of this.#alone(payment)) this.found.add(f)
      if (!this.#fits(payment)) suspects.add(payment.paidOrderNo ?? payment.orderNo)
      if (suspects.size < MAX_LISTED) continue
      this.found.truncate()
      break
    }
    const numbers = [...suspects]
    for (let i = 0; i < numbers.length; i += PAGE) await this.#verify(numbers.slice(i, i + PAGE))
    // Where the payments were not read to their end, orders without one are not known.
    if (!this.found.truncated && this.#paid.hasLeftovers()) await this.#unpaid()
  }

  /** What a payment says by itself. */
  #alone(p: PaymentRow): readonly Finding[] {
    const waits = (what: string) => this.parts.waiting.tooLong(`${p.paymentId} ${what}`)
    if (p.refundingMinor > p.capturedMinor || p.refundedMinor > p.capturedMinor)
      return [
        this.#finding(
          'refund-exceeds-payment',
          p,
          `${p.refundingMinor} of ${p.capturedMinor} go back`,
        ),
      ]
    if (p.refundingMinor > p.refundedMinor && waits(`refund ${p.refundedMinor}`))
      return [
        this.#finding('refund-stuck', p, `${p.refundedMinor} of ${p.refundingMinor} went back`),
      ]
    if (p.status === 'received' && waits('received'))
      return [this.#finding('payment-without-order', p, 'received, and no order to be in')]
    return []
  }

  /** False when it paid an order that is not there, is not PAID, costs another amount, or is paid already. */
  #fits(p: PaymentRow): boolean {
    if (p.status !== 'paid') return true
    const slot = this.#paid.find(p.paidOrderNo ?? p.orderNo)
    if (slot < 0) return false
    const first = !this.#paid.isSettled(slot)
    this.#paid.match(slot)
    return (
      first && this.#paid.isOf(slot, this.#paid.hash.of(money(p.capturedMinor, p.currency)).low)
    )
  }

  /** PAID orders that no payment was for; their names are read once more. */
  async #unpaid(): Promise<void> {
    for (let after: string | undefined = ''; after !== undefined; ) {
      const suspects: string[] = []
      const from: string = after
      after = undefined
      for await (const row of this.parts.orders.snapshot(this.ref, from || undefined)) {
        stopIfAborted(this.parts.signal)
        const slot = row.orderNo > from ? this.#paid.find(row.orderNo) : -1
        if (slot < 0 || this.#paid.isSettled(slot)) continue
        if (suspects.push(row.orderNo) < PAGE) continue
        after = row.orderNo
        break
      }
      await this.#verify(suspects)
    }
  }

  async #verify(orderNos: readonly string[]): Promise<void> {
    if (orderNos.length === 0) return
    const { settleMs, signal } = this.parts
    const first = await this.#ask(orderNos)
    if (first.length === 0) return
    await pause(settleMs, signal ?? new AbortController().signal)
    stopIfAborted(signal)
    for (const f of await this.#ask(orderNos))
      if (first.some((g) => g.id === f.id)) this.found.add(f)
  }

  async #ask(orderNos: readonly string[]): Promise<readonly Finding[]> {
    const payments = (await this.parts.payments.find(orderNos)).filter((p) => p.status === 'paid')
    const rows = await this.parts.orders.find([...new Set(orderNos)])
    const paid = new Map(rows.filter((r) => r.status === 'paid').map((r) => [r.orderNo, r]))
    const found: Finding[] = []
    for (const p of payments) {
      const order = paid.get(p.paidOrderNo ?? p.orderNo)
      if (!order)
        found.push(this.#finding('payment-without-order', p, 'kept, and its order is not PAID'))
      else if (money(p.capturedMinor, p.currency) !== money(order.amountMinor, order.currency))
        found.push(
          this.#finding(
            'amount-differs',
            p,
            `the order costs ${order.amountMinor} ${order.currency}`,
          ),
        )
    }
    for (const order of paid.values()) {
      const of = payments.filter((p) => (p.paidOrderNo ?? p.orderNo) === order.orderNo)
      if (of.length === 0 && Number(order.amountMinor) > 0) found.push(this.#unpaidOrder(order))
      for (const p of of.slice(1))
        found.push(
          this.#finding('paid-twice', p, `${order.orderNo} was paid by ${of[0]?.paymentId}`),
        )
    }
    return found
  }

  #finding(kind: SaleFindingKind, p: PaymentRow, what: string): Finding {
    return findingOf({
      ...this.ref,
      kind,
      subject: p.paymentId,
      evidence: `payment ${p.paymentId} (${p.status}, ${p.capturedMinor} ${p.currency}) of order ${p.orderNo}: ${what}`,
      repair: 'manual',
    })
  }

  #unpaidOrder({ orderNo, userId, quantity, amountMinor, currency }: OrderRow): Finding {
    return findingOf({
      ...this.ref,
      kind: 'paid-without-payment',
      subject: orderNo,
      userId,
      units: Number(quantity),
      evidence: `order ${orderNo} is PAID, and no payment of ${amountMinor} ${currency} was received for it`,
      repair: 'manual',
    })
  }
}

const money = (minor: number, currency: string) => `${minor} ${currency}`
