import { deepEqual, equal, fail, ok } from 'node:assert/strict'
import { within } from '../../core/background.js'
import type { OrderBook, Verdict } from '../../core/order-book.js'
import { newOrderNo } from '../../core/order-no.js'
import type { Activity, Reservation } from '../../core/types.js'
import type {
  HooksLike,
  OrderHooksUnderTest,
  OrderSketch,
  OrderToBook,
} from '../order-hooks-suite.js'

export const PRICE = 990
/** How long a hook may take before it counts as one that waits for what never comes. */
const PATIENCE_MS = 5_000

type Vetoes = readonly { readonly orderNo: string; readonly veto: string }[]

/** What the suite does beside the host's hooks, in the same transaction, after them. */
export interface Beside {
  confirmed?(orders: readonly OrderToBook[], run: number): Vetoes | undefined | Promise<undefined>
  closed?(orders: readonly OrderToBook[], run: number): void
  /** What the host's hooks are told instead. */
  told?(orders: readonly OrderToBook[], run: number): readonly OrderToBook[]
}

/** A host's hooks on the bench, with a sale of its own. */
export class HooksBench {
  readonly activity: Activity
  #buyers = 0
  #stuck = false

  constructor(readonly under: OrderHooksUnderTest<unknown>) {
    const now = Date.now()
    this.activity = {
      activityId: `suite-${newOrderNo()}`,
      version: 'v1',
      opensAt: now - 60_000,
      endsAt: now + 3_600_000,
      payWithinMs: 900_000,
      mode: 'queued',
      tokens: 'off',
      maxPerOrder: 1_000,
      skus: [{ skuId: 's1', units: 1_000_000, priceMinor: PRICE, currency: 'CNY' }],
    }
  }

  /** A book with the host's hooks and what is beside them; its stock row is there. */
  async book(
    beside: Beside = {},
    limits: { readonly hookTimeoutMs?: number } = {},
  ): Promise<OrderBook> {
    const { onConfirm, onClose } = this.under.hooks
    let run = 0
    const hooks: HooksLike<unknown> = {}
    if (onConfirm)
      hooks.onConfirm = async (trx, orders) => {
        const n = ++run
        const told = beside.told?.(orders, n) ?? orders
        const vetoes = await this.#patiently(() => onConfirm.call(this.under.hooks, trx, told))
        return [...(vetoes ?? []), ...((await beside.confirmed?.(orders, n)) ?? [])]
      }
    if (onClose)
      hooks.onClose = async (trx, orders, reason) => {
        const n = ++run
        const told = beside.told?.(orders, n) ?? orders
        await this.#patiently(() => onClose.call(this.under.hooks, trx, told, reason))
        beside.closed?.(orders, n)
      }
    const book = this.under.book(hooks, limits)
    await book.prepare(this.activity)
    return book
  }

  order(o: OrderSketch = this.under.good ?? {}): Reservation {
    return {
      orderNo: newOrderNo(),
      activityId: this.activity.activityId,
      skuId: 's1',
      userId: `suite-${++this.#buyers}`,
      quantity: 1,
      bucket: 0,
      version: 'v1',
      reservedAt: Date.now(),
      ...o,
    }
  }

  orders(count: number): readonly Reservation[] {
    return Array.from({ length: count }, () => this.order())
  }

  /**
   * The host's own table agrees with the verdicts: one order for each that is confirmed, at the price of its version, and
   * none for the others.
   */
  async agrees(reservations: readonly Reservation[], verdicts: readonly Verdict[]): Promise<void> {
    this.#moved()
    const live = verdicts.filter((v) => v.status !== 'closed').map((v) => v.orderNo)
    const rows = await this.under.standing(reservations.map((r) => r.orderNo))
    const numbers = rows.map((row) => row.orderNo)
    const lacking = live.filter((no) => !numbers.includes(no))
    equal(lacking.length, 0, `${lacking.length} confirmed orders are not in the host's table`)
    const extra = numbers.filter((no) => !live.includes(no))
    equal(extra.length, 0, `${extra.length} orders in the host's table are not confirmed`)
    equal(numbers.length, new Set(numbers).size, "an order is in the host's table twice")
    for (const { orderNo, amountMinor } of rows) {
      const quantity = reservations.find((r) => r.orderNo === orderNo)?.quantity ?? 0
      if (amountMinor !== undefined)
        equal(amountMinor, quantity * PRICE, `the amount of ${orderNo} in the host's table`)
    }
  }

  /** All were confirmed, and the host's table has them. */
  async confirmed(
    reservations: readonly Reservation[],
    verdicts: readonly Verdict[],
  ): Promise<void> {
    this.#moved()
    const words = verdicts.map((v) => (v.status === 'closed' ? `closed: ${v.reason}` : v.status))
    deepEqual(new Set(words), new Set(['confirmed']))
    await this.agrees(reservations, verdicts)
  }

  /** The one order is closed, for a reason that begins so, and the others are confirmed. */
  async only(
    closed: Reservation,
    reason: string,
    reservations: readonly Reservation[],
    verdicts: readonly Verdict[],
  ): Promise<void> {
    this.#moved()
    for (const verdict of verdicts) {
      const { orderNo, status } = verdict
      if (orderNo !== closed.orderNo) equal(status, 'confirmed', 'an order beside it')
      else if (status !== 'closed') fail(`the order that is to be closed is ${status}`)
      else ok(verdict.reason.startsWith(reason), `it is closed as ${verdict.reason}, not ${reason}`)
    }
    await this.agrees(reservations, verdicts)
  }

  async close(): Promise<void> {
    await this.under.close()
  }

  #moved(): void {
    if (this.#stuck)
      fail(
        `a hook was not over within ${PATIENCE_MS} ms on a pool of one connection: does it ask for another than trx?`,
      )
  }

  async #patiently<T>(hook: () => Promise<T>): Promise<T> {
    // Once is enough: what is repeated would only wait as long again.
    if (this.#stuck) throw new Error('stuck before')
    return within(hook(), PATIENCE_MS, () => {
      this.#stuck = true
      throw new Error('stuck')
    })
  }
}
