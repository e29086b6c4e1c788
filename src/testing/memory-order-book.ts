import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type {
  ManualTask,
  OrderBook,
  OrderRow,
  OwedRelease,
  PreparedNumbers,
  Verdict,
} from '../core/order-book.js'
import type { ActivityControl } from '../core/ports.js'
import { REFUNDED } from '../core/standing.js'
import type { Activity, Audit, DbNumbers, Reservation, SkuRef } from '../core/types.js'
import { MemoryReleases } from './orders/memory-releases.js'
import { amountOf, liveUnits, type Stock, skuKey, stocksOf, verdictOf } from './orders/rows.js'

export interface MemoryOrderBookOptions {
  /** Asked by `buy`, which sells in a sale that is open; without it none is. */
  readonly control?: Pick<ActivityControl, 'read'>
  /** Epoch ms. @defaultValue `Date.now` */
  readonly clock?: () => number
}

/**
 * An {@link OrderBook} in memory, for unit tests: it decides as `KnexOrderBook` does, and passes the same suite. Without
 * hooks, without audit rows, gone with the process. A test over `KnexOrderBook` on SQLite in memory has all of it.
 */
export class MemoryOrderBook implements OrderBook {
  /** All rows, by number. */
  readonly rows = new Map<string, OrderRow>()
  readonly tasks: ManualTask[] = []
  readonly #stocks = new Map<string, Stock>()
  readonly #topUps = new Map<string, { readonly key: string; readonly units: number }>()
  readonly #releases: MemoryReleases
  readonly #control: Pick<ActivityControl, 'read'> | null
  readonly #clock: () => number

  constructor(o: MemoryOrderBookOptions = {}) {
    this.#control = o.control ?? null
    this.#clock = o.clock ?? Date.now
    this.#releases = new MemoryReleases(this.#clock)
  }

  /** CONFIRMED to PAID, as a payment does it. False when it is neither. */
  pay(orderNo: string): boolean {
    const row = this.rows.get(orderNo)
    if (!row || row.status === 'closed') return false
    this.rows.set(orderNo, { ...row, status: 'paid' })
    return true
  }

  async prepare(activity: Activity): Promise<readonly PreparedNumbers[]> {
    const wanted = stocksOf(check.activity(activity))
    for (const terms of wanted) {
      const stock = this.#stocks.get(skuKey(terms))
      if (stock && stock.version !== terms.version && stock.available !== stock.total)
        throw badInput(`${skuKey(terms)} has live orders of version ${stock.version}`)
      const same = (['priceMinor', 'currency', 'payWithinMs', 'maxPerOrder'] as const).every(
        (name) => stock?.[name] === terms[name],
      )
      if (stock?.version === terms.version && !same)
        throw badInput(`${skuKey(terms)} was prepared with other terms: they need another version`)
    }
    for (const terms of wanted)
      if (this.#stocks.get(skuKey(terms))?.version !== terms.version)
        this.#stocks.set(skuKey(terms), terms)
    return wanted.map((terms) => ({
      ...(this.#numbers(terms) as DbNumbers),
      topUps: this.#operations(skuKey(terms)),
    }))
  }

  async confirm(
    reservations: readonly Reservation[],
    signal?: AbortSignal,
  ): Promise<readonly Verdict[]> {
    if (signal?.aborted) throw new FlashSaleError('STOPPED', 'stopped before anything was written')
    return distinct(reservations).map((r) => this.#decided(r) ?? this.#confirm(r))
  }

  async closeUnbooked(
    reservations: readonly Reservation[],
    reason: string,
  ): Promise<readonly Verdict[]> {
    const why = reasonOf(reason)
    return distinct(reservations).map((r) => this.#decided(r) ?? this.#close(r, why))
  }

  async closeUnpaid(orderNos: readonly string[], reason: string): Promise<readonly Verdict[]> {
    const why = reasonOf(reason)
    return [...new Set(orderNos)].flatMap((orderNo): readonly Verdict[] => {
      const row = this.rows.get(check.id(orderNo, 'orderNo'))
      if (!row) return []
      if (row.status !== 'confirmed') return [verdictOf(row, false)]
      const stock = this.#stocks.get(skuKey(row))
      if (stock) stock.available += row.quantity
      this.#releases.owe(row, why)
      return [verdictOf(this.#put({ ...row, status: 'closed', reason: why }), true)]
    })
  }

  async buy(reservation: Reservation): Promise<Awaited<ReturnType<OrderBook['buy']>>> {
    const r = check.reservation(reservation)
    const { orderNo, activityId } = r
    const open = (await this.#control?.read(activityId))?.state === 'open'
    const standing = this.rows.get(orderNo)
    if (standing && standing.userId !== r.userId)
      throw badInput(`order number ${orderNo} is another buyer's`)
    if (standing?.status === 'closed')
      return { status: 'closed', orderNo, reason: standing.reason ?? '' }
    if (standing) return { status: 'confirmed', orderNo, fresh: false }
    const holder = this.#holder(r)
    if (holder) return { status: 'already-bought', orderNo: holder.orderNo }
    if (!open) return { status: 'stopped' }
    const refused = this.#refusal(r)
    switch (refused) {
      case null:
        this.#take(r)
        return { status: 'confirmed', orderNo, fresh: true }
      case 'version-mismatch':
        return { status: refused }
      case 'sold-out': {
        const available = this.#stocks.get(skuKey(r))?.available ?? 0
        return available > 0 ? { status: 'not-enough', available } : { status: refused }
      }
      case 'over-limit':
        throw badInput(`quantity ${r.quantity} is more than one order may have`)
      case 'no-stock-row':
        throw new FlashSaleError('NOT_WARMED', `no stock row for ${skuKey(r)}: prepare it first`)
    }
  }

  async find(orderNos: readonly string[]): Promise<readonly OrderRow[]> {
    return [...new Set(orderNos)].flatMap((no) => this.rows.get(check.id(no, 'orderNo')) ?? [])
  }

  async findByBuyer(ref: SkuRef, userId: string): Promise<OrderRow | null> {
    const own = this.#of(ref).filter((row) => row.userId === userId)
    return own.find((row) => row.status !== 'closed') ?? own.at(-1) ?? null
  }

  async numbers(ref: SkuRef): Promise<DbNumbers | null> {
    return this.#numbers(check.skuRef(ref))
  }

  async *snapshot(ref: SkuRef, after = ''): AsyncGenerator<OrderRow> {
    const rows = this.#of(check.skuRef(ref)).filter((row) => row.orderNo > after)
    yield* rows.sort((a, b) => (a.orderNo < b.orderNo ? -1 : 1))
  }

  async topUps(ref: SkuRef): Promise<Awaited<ReturnType<OrderBook['topUps']>>> {
    const key = skuKey(check.skuRef(ref))
    const stock = this.#stocks.get(key)
    if (!stock) return null
    return { total: stock.total, operations: this.#operations(key) }
  }

  async topUp(ref: SkuRef, units: number, operationId: string, audit: Audit): Promise<DbNumbers> {
    const key = skuKey(check.skuRef(ref))
    check.int(units, 'units', -check.MAX_UNITS, check.MAX_UNITS)
    if (units === 0) check.fail('BAD_INPUT', 'units', 'not 0', units)
    check.id(operationId, 'operationId')
    check.audit(audit)
    const stock = this.#stocks.get(key)
    if (!stock) throw badInput(`${key} has no stock row: prepare it first`)
    const done = this.#topUps.get(operationId)
    if (done && (done.key !== key || done.units !== units))
      throw badInput(`operation ${operationId} was another top-up`)
    if (!done) {
      if (stock.available + units < 0 || stock.total + units > check.MAX_UNITS)
        throw badInput(`${stock.available} of ${stock.total} are available: not ${units} more`)
      stock.total += units
      stock.available += units
      this.#topUps.set(operationId, { key, units })
    }
    return this.#numbers(ref) as DbNumbers
  }

  async takeReleases(o: {
    readonly limit: number
    readonly leaseMs: number
  }): Promise<readonly OwedRelease[]> {
    return this.#releases.take(o)
  }

  async owedReleases(
    ref: SkuRef,
    o: { readonly olderThanMs: number; readonly limit: number },
  ): Promise<readonly string[]> {
    return this.#releases.olderThan(check.skuRef(ref), o)
  }

  async released(orderNos: readonly string[]): Promise<void> {
    this.#releases.done(orderNos)
  }

  /** Offered again after 1 s, for ever: nothing is parked. */
  async retryReleases(releases: readonly OwedRelease[]): Promise<readonly string[]> {
    this.#releases.retry(releases)
    return []
  }

  async addManualTask(task: ManualTask): Promise<void> {
    const there = this.tasks.some(({ kind, ref }) => kind === task.kind && ref === task.ref)
    if (!there) this.tasks.push(task)
  }

  #of(ref: SkuRef): OrderRow[] {
    return [...this.rows.values()].filter((row) => skuKey(row) === skuKey(ref))
  }

  #operations(key: string) {
    const mine = [...this.#topUps].filter(([, operation]) => operation.key === key)
    return mine.map(([operationId, { units }]) => ({ operationId, units }))
  }

  #numbers(ref: SkuRef): DbNumbers | null {
    const stock = this.#stocks.get(skuKey(ref))
    if (!stock) return null
    const { activityId, skuId, total, available } = stock
    return { activityId, skuId, total, available, live: liveUnits(this.#of(ref)) }
  }

  #holder(r: Reservation): OrderRow | undefined {
    return this.#of(r).find((row) => row.userId === r.userId && row.status !== 'closed')
  }

  #refusal(r: Reservation) {
    const stock = this.#stocks.get(skuKey(r))
    if (!stock) return 'no-stock-row' as const
    if (stock.version !== r.version) return 'version-mismatch' as const
    if (r.quantity > stock.maxPerOrder) return 'over-limit' as const
    return r.quantity > stock.available ? ('sold-out' as const) : null
  }

  #decided(r: Reservation): Verdict | null {
    const row = this.rows.get(r.orderNo)
    return row ? verdictOf(row, false) : null
  }

  #confirm(r: Reservation): Verdict {
    const refused = this.#holder(r) ? 'already-bought' : this.#refusal(r)
    if (refused === 'no-stock-row')
      void this.addManualTask({ kind: refused, ref: skuKey(r), detail: { orderNo: r.orderNo } })
    return refused === null ? verdictOf(this.#take(r), true) : this.#close(r, refused)
  }

  #take(r: Reservation): OrderRow {
    const stock = this.#stocks.get(skuKey(r)) as Stock
    stock.available -= r.quantity
    return this.#put({
      ...r,
      status: 'confirmed',
      reason: null,
      ...amountOf(r, stock, this.#clock()),
    })
  }

  #close(r: Reservation, reason: string): Verdict {
    this.#releases.owe(r, reason)
    const amount = amountOf(r, this.#stocks.get(skuKey(r)), this.#clock())
    return verdictOf(this.#put({ ...r, status: 'closed', reason, ...amount }), true)
  }

  #put(row: OrderRow): OrderRow {
    this.rows.set(row.orderNo, row)
    return row
  }
}

/** Checked, each number once: the first of a number counts. */
function distinct(reservations: readonly Reservation[]): readonly Reservation[] {
  const byNumber = new Map<string, Reservation>()
  for (const r of reservations.map(check.reservation))
    if (!byNumber.has(r.orderNo)) byNumber.set(r.orderNo, r)
  return [...byNumber.values()]
}

/** `refunded` is not for the taking: such a row keeps its units. */
function reasonOf(reason: string): string {
  if (reason === REFUNDED) check.fail('BAD_INPUT', 'reason', "other than 'refunded'", reason)
  return check.text(reason, 'reason', 200)
}

function badInput(why: string): FlashSaleError {
  return new FlashSaleError('BAD_INPUT', `${why}; nothing was written`)
}
