import { FlashSaleError } from '../../core/errors.js'
import type { OrderRow, Verdict } from '../../core/order-book.js'
import { NO_CURRENCY, REFUNDED } from '../../core/standing.js'
import type { Activity, DbNumbers, Reservation, SkuRef } from '../../core/types.js'

/** Rules of the database that a run may do without, to see what then breaks. */
export interface BookRules {
  /** One live order a buyer. */
  readonly liveKey: boolean
  /** Every number that a confirm sees and does not confirm gets a CLOSED row. */
  readonly rowsForRefused: boolean
  /** Late money buys an order of a new number. */
  readonly lateIsNew: boolean
  /** What is decided to go back counts, whether it went or not. */
  readonly refundsAddUp: boolean
}

interface Owed {
  readonly reservation: Reservation
  readonly reason: string
  dueAt: number
}

/** The database: what it holds, and what one transaction after the other does to it. */
export class SimDatabase {
  readonly rows = new Map<string, OrderRow>()
  /** Numbers that were CONFIRMED at some time. */
  readonly everConfirmed = new Set<string>()
  readonly owed = new Map<string, Owed>()
  readonly tasks: string[] = []
  /** Units by operation. */
  readonly topUps = new Map<string, number>()
  available: number
  /** Rises with every write. */
  version = 0

  constructor(
    readonly activity: Activity,
    private readonly now: () => number,
    readonly rules: BookRules,
  ) {
    this.available = this.units
  }

  /** S. */
  get units(): number {
    const added = [...this.topUps.values()].reduce((sum, units) => sum + units, 0)
    return (this.activity.skus[0]?.units ?? 0) + added
  }

  get ref(): SkuRef {
    return { activityId: this.activity.activityId, skuId: this.activity.skus[0]?.skuId ?? '' }
  }

  live(): OrderRow[] {
    return [...this.rows.values()].filter((row) => row.status !== 'closed')
  }

  /** Units that are not on sale: those of a refunded order stay sold. */
  liveUnits(): number {
    const holding = [...this.rows.values()].filter((row) => standingOf(row) !== 'closed')
    return holding.reduce((sum, row) => sum + row.quantity, 0)
  }

  numbers(): DbNumbers {
    const { ref, units, available } = this
    return { ...ref, total: units, available, live: this.liveUnits() }
  }

  topUp(units: number, operationId: string): DbNumbers {
    if (this.topUps.has(operationId)) return this.numbers()
    if (this.available + units < 0)
      throw new FlashSaleError('BAD_INPUT', 'more than is available; nothing was written')
    this.version++
    this.topUps.set(operationId, units)
    this.available += units
    return this.numbers()
  }

  confirm(reservations: readonly Reservation[]): Verdict[] {
    return reservations.map((r) => {
      const standing = this.rows.get(r.orderNo)
      if (standing) return verdictOf(standing, false)
      const holder = this.live().some((row) => row.userId === r.userId)
      if (holder && this.rules.liveKey) return this.refuse(r, 'already-bought')
      if (r.quantity > this.available) return this.refuse(r, 'sold-out')
      this.available -= r.quantity
      this.everConfirmed.add(r.orderNo)
      return verdictOf(this.insert(r, 'confirmed', null), true)
    })
  }

  closeUnbooked(reservations: readonly Reservation[], reason: string): Verdict[] {
    return reservations.map((r) => {
      const standing = this.rows.get(r.orderNo)
      if (standing) return verdictOf(standing, false)
      return this.close(r, reason)
    })
  }

  closeUnpaid(orderNos: readonly string[], reason: string): Verdict[] {
    return orderNos.flatMap((orderNo) => {
      const row = this.rows.get(orderNo)
      if (row?.status !== 'confirmed') return row ? [verdictOf(row, false)] : []
      this.available += row.quantity
      const closed = this.put({ ...row, status: 'closed', reason })
      this.owe(row, reason)
      return [verdictOf(closed, true)]
    })
  }

  /** An order that is CONFIRMED, or closed and bought again. */
  pay(order: OrderRow, payBy: number): OrderRow {
    if (this.rows.get(order.orderNo)?.status !== 'confirmed') this.available -= order.quantity
    this.everConfirmed.add(order.orderNo)
    return this.put({ ...order, status: 'paid', reason: null, payBy })
  }

  /** Its units stay sold until the host puts them on sale again. */
  closeRefunded(orderNo: string): void {
    const row = this.rows.get(orderNo)
    if (row) this.put({ ...row, status: 'closed', reason: REFUNDED })
  }

  private refuse(r: Reservation, reason: string): Verdict {
    if (!this.rules.rowsForRefused)
      return { orderNo: r.orderNo, status: 'closed', reason, fresh: true }
    return this.close(r, reason)
  }

  private close(r: Reservation, reason: string): Verdict {
    const row = this.insert(r, 'closed', reason)
    this.owe(row, reason)
    return verdictOf(row, true)
  }

  private insert(r: Reservation, status: 'confirmed' | 'closed', reason: string | null): OrderRow {
    return this.put({ ...r, status, reason, ...this.priced(r) })
  }

  /** The price of the reservation's own version; without one, none. */
  private priced({ version, quantity }: Reservation) {
    const [sku] = this.activity.skus
    if (!sku || version !== this.activity.version)
      return { amountMinor: 0, currency: NO_CURRENCY, payBy: this.now() }
    const { priceMinor, currency } = sku
    const payBy = this.now() + this.activity.payWithinMs
    return { amountMinor: quantity * priceMinor, currency, payBy }
  }

  private put(row: OrderRow): OrderRow {
    this.version++
    this.rows.set(row.orderNo, row)
    return row
  }

  private owe(reservation: Reservation, reason: string): void {
    this.owed.set(reservation.orderNo, { reservation, reason, dueAt: this.now() + 15_000 })
  }
}

/** What Redis says of it: the units of a refunded order are as sold as before. */
export function standingOf({ status, reason }: OrderRow): OrderRow['status'] {
  return status === 'closed' && reason === REFUNDED ? 'paid' : status
}

function verdictOf(row: OrderRow, fresh: boolean): Verdict {
  const { orderNo, status } = row
  return status === 'closed'
    ? { orderNo, status, reason: row.reason ?? 'closed', fresh }
    : { orderNo, status, fresh }
}
