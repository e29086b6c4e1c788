import type { OrderBook, OrderRow } from '../core/order-book.js'
import type { SkuRef } from '../core/types.js'
import { compareStates } from './classify.js'
import { exactNumber } from './exact-number.js'
import { NameSet } from './name-set.js'
import { MAX_RARE, type ReadOptions } from './read-records.js'
import type { RecordTable } from './record-table.js'
import type { Suspect } from './second-look.js'
import { stopIfAborted } from './stop.js'

/** Suspects in memory; when they are so many, they are looked at before the reading goes on. */
const MAX_SUSPECTS = 10_000
/** Progress is told and the signal heard that often. */
const ROWS_A_PAGE = 1_000

/** The same four objects for a million rows. */
const RECORD_IN = {
  held: { state: 'held' },
  confirmed: { state: 'confirmed' },
  paid: { state: 'paid' },
  released: { state: 'released' },
} as const

export interface OrderSums {
  readonly confirmed: number
  readonly paid: number
  readonly closedOrders: number
}

/** The rows of an SKU against the table of records. Holds a connection as long as it reads, and none while it looks again. */
export class OrderReader {
  /** Buyers who seem to have more than one live order. */
  readonly doubles = new Set<string>()
  readonly #buyers: NameSet
  readonly #units = { confirmed: 0, paid: 0 }
  #closedOrders = 0

  constructor(
    private readonly orders: Pick<OrderBook, 'snapshot'>,
    private readonly ref: SkuRef,
    private readonly o: ReadOptions & {
      readonly version: string
      readonly onRow?: (row: OrderRow) => void
    },
  ) {
    this.#buyers = new NameSet(o.expected)
  }

  get sums(): OrderSums {
    return { ...this.#units, closedOrders: this.#closedOrders }
  }

  async read(
    table: RecordTable,
    look: (suspects: readonly Suspect[]) => Promise<void>,
  ): Promise<void> {
    for (let after: string | undefined = ''; after !== undefined; ) {
      const suspects: Suspect[] = []
      after = await this.#some(table, after, suspects)
      await look(suspects)
    }
  }

  /** Where it stopped because suspects are too many, undefined at the end. */
  async #some(table: RecordTable, after: string, suspects: Suspect[]): Promise<string | undefined> {
    let rows = 0
    for await (const row of this.orders.snapshot(this.ref, after || undefined)) {
      if (++rows % ROWS_A_PAGE === 0) {
        stopIfAborted(this.o.signal)
        this.o.onRows(ROWS_A_PAGE)
      }
      if (row.orderNo <= after) continue // by a book that cannot begin in the middle
      const isLive = this.#add(row)
      const buyer = table.hash.of(row.userId)
      if (isLive && !this.#buyers.add(buyer) && this.doubles.size < MAX_RARE)
        this.doubles.add(row.userId)
      if (!this.#agrees(table, row, buyer.low))
        suspects.push({ orderNo: row.orderNo, userId: row.userId })
      if (suspects.length === MAX_SUSPECTS) return row.orderNo
    }
    this.o.onRows(rows % ROWS_A_PAGE)
    return undefined
  }

  /** True for a live one. */
  #add(row: OrderRow): boolean {
    this.o.onRow?.(row)
    if (row.status === 'closed') {
      this.#closedOrders++
      return false
    }
    this.#units[row.status] += exactNumber(row.quantity, 'quantity')
    return true
  }

  /** False when the row is to be looked at again from its side; a record of somebody else is left over, and looked at from Redis'. */
  #agrees(table: RecordTable, row: OrderRow, buyer: number): boolean {
    const slot = table.find(row.orderNo)
    if (slot < 0) return compareStates(null, row, false).status === 'agrees'
    if (!table.isOf(slot, buyer)) return true
    table.match(slot)
    const state = table.state(slot)
    if (compareStates(RECORD_IN[state], row, false).status !== 'agrees') return false
    if (state === 'released' || row.status === 'closed') return true
    return (
      table.quantity(slot) === exactNumber(row.quantity, 'quantity') &&
      row.version === this.o.version &&
      row.bucket === 0
    )
  }
}
