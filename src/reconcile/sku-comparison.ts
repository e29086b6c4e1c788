import { pause } from '../core/background.js'
import type { OrderBook, OrderRow } from '../core/order-book.js'
import type { ReconcilableStock } from '../core/reconcile.js'
import type { DbNumbers, SaleNumbers, SkuRef } from '../core/types.js'
import { doubtRedis, doubtTheDatabase } from './doubts.js'
import type { FindingList } from './finding-list.js'
import { type Finding, findingOf, type Triangle, unreadable } from './findings.js'
import { Judge } from './judge.js'
import { twoLiveOrders } from './marks.js'
import { overFindings, redisNumbers, sumFindings, totalFindings, unmoved } from './numbers.js'
import { OrderReader } from './read-orders.js'
import { pages, type ReadOptions, type Records, readRecords } from './read-records.js'
import { stopIfAborted } from './stop.js'

interface ComparisonParts {
  readonly stock: ReconcilableStock
  readonly orders: OrderBook
  readonly graceMs: number
  readonly settleMs: number
  readonly signal: AbortSignal | undefined
  readonly onRows: (reading: 'records' | 'orders', rows: number) => void
  readonly onOrder?: (row: OrderRow) => void
}

/**
 * One SKU, side against side, in bounded memory: the records into a table of 16 bytes each, the orders streamed against it,
 * and a second walk over the records only where some had no row. What differs is looked at again before it is a finding.
 */
export class SkuComparison {
  readonly #judge: Judge
  /** About how many records there are. */
  #expected = 0
  heldOrders = 0

  constructor(
    private readonly parts: ComparisonParts,
    private readonly ref: SkuRef,
    private readonly found: FindingList,
  ) {
    this.#judge = new Judge(parts, ref, found)
  }

  get withoutClosing(): ReadonlySet<string> {
    return this.#judge.withoutClosing
  }

  /** Null when Redis' numbers cannot be trusted: then nothing can be moved there, and nothing is compared. */
  async run(): Promise<Triangle | null> {
    const { parts, ref, found } = this
    const unitsBefore = found.units
    const before = await redisNumbers(parts.stock, ref)
    if (before === 'corrupt') return this.#corrupt()
    this.#expected = before.frozen + before.sold
    const records = await readRecords(parts.stock, ref, this.#reading('records'))
    const sums = await this.#sums(before, records)
    const orders = await this.#orders(records, before.version)
    for (const userId of records.strange) found.add(unreadable(ref, userId))
    for (const f of sums.found) found.add(f)
    await this.#judge.settle()
    const database = await this.#totals()
    doubtTheDatabase(ref, found, this.#judge.behind)
    doubtRedis(ref, found)
    const redis = await redisNumbers(parts.stock, ref)
    if (redis === 'corrupt') return this.#corrupt()
    return {
      ...ref,
      physical: database.total,
      redis,
      database,
      ...orders,
      onTheWay: this.#judge.onTheWay,
      difference: found.units - unitsBefore,
      sumsCompared: sums.compared,
    }
  }

  #corrupt(): null {
    const evidence =
      "Redis' numbers do not add up among themselves: it takes no move until they are rebuilt"
    this.found.add(findingOf({ ...this.ref, kind: 'numbers-corrupt', evidence, repair: 'manual' }))
    return null
  }

  #reading(what: 'records' | 'orders'): ReadOptions {
    const { signal, onRows } = this.parts
    return { signal, expected: this.#expected, onRows: (rows) => onRows(what, rows) }
  }

  async #orders({ table, beside, strange }: Records, version: string) {
    const { stock, orders, onOrder, signal } = this.parts
    const reader = new OrderReader(orders, this.ref, {
      ...this.#reading('orders'),
      version,
      ...(onOrder ? { onRow: onOrder } : {}),
    })
    await reader.read(table, (suspects) => this.#judge.judge(suspects, strange))
    // Records without a row, or with somebody else's: only their hashes are known, so their names are read again.
    if (table.hasLeftovers())
      for await (const page of pages(stock, this.ref, this.#reading('records'))) {
        const isLeft = (slot: number) => slot >= 0 && !table.isSettled(slot)
        const suspects = page.rows.filter((r) => isLeft(table.find(r.orderNo)))
        await this.#judge.judge(suspects, strange)
      }
    await this.#judge.judgeBeside(beside, strange)
    for (const f of await twoLiveOrders(orders, this.ref, reader.doubles, signal)) this.found.add(f)
    return reader.sums
  }

  /**
   * A unit that left and another that came while the records were read look like nothing moved; so a difference counts only
   * if a second reading shows the same.
   */
  async #sums(
    before: SaleNumbers,
    { table, strange }: Records,
  ): Promise<{ readonly found: readonly Finding[]; readonly compared: boolean }> {
    const { stock } = this.parts
    const sums = table.sums()
    this.heldOrders = sums.heldOrders
    const after = await stock.numbers(this.ref)
    // What an unreadable record holds is in no sum.
    if (!unmoved(before, after) || strange.size > 0) return { found: [], compared: false }
    const first = sumFindings(this.ref, after, sums)
    if (first.length === 0) return { found: [], compared: true }
    const again = await readRecords(stock, this.ref, this.#reading('records'))
    const second = sumFindings(this.ref, await stock.numbers(this.ref), again.table.sums())
    const found = inBoth(first, second)
    return { found, compared: found.length === first.length }
  }

  /** A top-up reaches Redis a moment after the database, so that what differs is read twice. */
  async #totals(): Promise<DbNumbers> {
    const { stock, orders, settleMs, signal } = this.parts
    const read = async () => {
      const { found, database } = await totalFindings(stock, orders, this.ref)
      const redis = await stock.numbers(this.ref)
      return {
        database,
        found: [...found, ...overFindings(this.ref, redis, this.#judge.returning)],
      }
    }
    const first = await read()
    if (first.found.length === 0) return first.database
    await pause(settleMs, signal ?? new AbortController().signal)
    stopIfAborted(signal)
    const second = await read()
    for (const f of inBoth(first.found, second.found)) this.found.add(f)
    return second.database
  }
}

function inBoth(first: readonly Finding[], second: readonly Finding[]): readonly Finding[] {
  return second.filter((f) => first.some((g) => g.id === f.id && g.units === f.units))
}
