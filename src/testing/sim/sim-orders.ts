import { FlashSaleError } from '../../core/errors.js'
import type { OrderBook, OrderRow, OwedRelease, Verdict } from '../../core/ports.js'
import type { Activity, DbNumbers, Reservation, SkuRef } from '../../core/types.js'
import type { CallFault } from './process.js'

/** Rules of the database that a run may do without, to see what then breaks. */
export interface BookRules {
  /** One live order a buyer. */
  readonly liveKey: boolean
  /** Every number that a confirm sees and does not confirm gets a CLOSED row. */
  readonly rowsForRefused: boolean
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
  available: number
  /** Rises with every write. */
  version = 0

  constructor(
    readonly activity: Activity,
    private readonly now: () => number,
    private readonly rules: BookRules,
  ) {
    this.available = this.units
  }

  get units(): number {
    return this.activity.skus[0]?.units ?? 0
  }

  get ref(): SkuRef {
    return { activityId: this.activity.activityId, skuId: this.activity.skus[0]?.skuId ?? '' }
  }

  live(): OrderRow[] {
    return [...this.rows.values()].filter((row) => row.status !== 'closed')
  }

  numbers(): DbNumbers {
    const live = this.live().reduce((sum, row) => sum + row.quantity, 0)
    return { ...this.ref, total: this.units, available: this.available, live }
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

  /** CONFIRMED to PAID; false when it is neither. */
  pay(orderNo: string): boolean {
    const row = this.rows.get(orderNo)
    if (!row || row.status === 'closed') return false
    this.put({ ...row, status: 'paid' })
    return true
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
    const amountMinor = r.quantity * (this.activity.skus[0]?.priceMinor ?? 0)
    const payBy = this.now() + this.activity.payWithinMs
    return this.put({ ...r, status, reason, amountMinor, currency: 'CNY', payBy })
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

function verdictOf(row: OrderRow, fresh: boolean): Verdict {
  const { orderNo, status } = row
  return status === 'closed'
    ? { orderNo, status, reason: row.reason ?? 'closed', fresh }
    : { orderNo, status, fresh }
}

export const BOOK_FAULTS: readonly CallFault<unknown>[] = [
  { name: 'committed, the answer is lost', done: 1, fails: () => unknown('OUTCOME_UNKNOWN') },
  { name: 'rolled back, the answer is lost', done: 0, fails: () => unknown('OUTCOME_UNKNOWN') },
  { name: 'refused', done: 0, fails: () => unknown('DB_UNAVAILABLE') },
]

const unknown = (code: 'OUTCOME_UNKNOWN' | 'DB_UNAVAILABLE') =>
  new FlashSaleError(code, 'the simulated database did not answer')

/** A call that writes: an event, with the label of the numbers it is about. */
export type Write = <T>(what: string, orderNos: readonly string[], act: () => T) => Promise<T>

const nobody = (what: string): never => {
  throw new FlashSaleError('BAD_INPUT', `the simulated database does not know ${what}`)
}

/** The order book of one process on the shared database. */
export function simOrders(db: SimDatabase, write: Write, now: () => number): OrderBook {
  const numbers = (reservations: readonly Reservation[]) => reservations.map((r) => r.orderNo)
  return {
    prepare: async () => [db.numbers()],
    confirm: (rs) => write('confirm', numbers(rs), () => db.confirm(rs)),
    closeUnbooked: (rs, reason) =>
      write(`close (${reason})`, numbers(rs), () => db.closeUnbooked(rs, reason)),
    closeUnpaid: (nos, reason) =>
      write(`close (${reason})`, nos, () => db.closeUnpaid(nos, reason)),
    buy: async () => nobody('strong mode'),
    find: async (nos) => nos.flatMap((no) => db.rows.get(no) ?? []),
    async findByBuyer(_, userId) {
      const own = [...db.rows.values()].filter((row) => row.userId === userId)
      return own.find((row) => row.status !== 'closed') ?? own.at(-1) ?? null
    },
    numbers: async () => db.numbers(),
    async *snapshot(_, after = '') {
      const rows = [...db.rows.values()].sort((a, b) => (a.orderNo < b.orderNo ? -1 : 1))
      yield* rows.filter((row) => row.orderNo > after)
    },
    topUps: async () => ({ total: db.units, operations: [] }),
    topUp: async () => nobody('a top-up'),
    async takeReleases({ limit, leaseMs }) {
      const due = [...db.owed.values()].filter((o) => o.dueAt <= now()).slice(0, limit)
      return due.map((o): OwedRelease => {
        o.dueAt = now() + leaseMs
        const { reservation, reason } = o
        return { id: reservation.orderNo, lease: '', reservation, reason }
      })
    },
    async owedReleases(_, { olderThanMs, limit }) {
      const old = [...db.owed.values()].filter((o) => o.dueAt + olderThanMs <= now())
      return old.slice(0, limit).map((o) => o.reservation.orderNo)
    },
    async released(nos) {
      for (const no of nos) db.owed.delete(no)
    },
    async retryReleases() {
      return []
    },
    async addManualTask({ kind, ref }) {
      db.tasks.push(`${kind} ${ref}`)
    },
  }
}
