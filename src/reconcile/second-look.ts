import { FlashSaleError } from '../core/errors.js'
import type { OrderBook, OrderRow } from '../core/order-book.js'
import type { Ledger } from '../core/reconcile.js'
import type { ReservationRecord, SkuRef } from '../core/types.js'
import { compareStates, type FindingKind } from './classify.js'
import { exactNumber } from './exact-number.js'

/** A number that seemed to differ. */
export interface Suspect {
  readonly orderNo: string
  /** Under whom Redis has its record; its order's buyer where Redis has none. */
  readonly userId: string
}

/** What both sides say of a number now. */
export interface Pair extends Suspect {
  readonly record: ReservationRecord | null
  readonly row: OrderRow | null
  readonly ageMs: number
}

const PAGE = 256

/** Kinds in which Redis is ahead of the row. It hears of a row after its commit, so a row read after it must be as far. */
const REDIS_AHEAD: ReadonlySet<string> = new Set<FindingKind>([
  'order-missing',
  'paid-differs',
  'no-closing',
  'excess-order',
  'paid-but-returned',
])

/**
 * The two readings of a run are of different moments: what seems to differ is looked at once more. The row first and then
 * Redis, so that a number decided in between shows in Redis, never as a row that Redis forgot; and where Redis seems to be
 * ahead, the row once more.
 */
export class SecondLook {
  constructor(
    private readonly stock: Pick<Ledger, 'reservations'>,
    private readonly orders: Pick<OrderBook, 'find'>,
  ) {}

  /** In pages of 256. `strange`: buyers whose record cannot be read. */
  async *pages(
    ref: SkuRef,
    suspects: readonly Suspect[],
  ): AsyncGenerator<{ readonly pairs: readonly Pair[]; readonly strange: readonly string[] }> {
    for (let i = 0; i < suspects.length; i += PAGE)
      yield await this.#page(ref, suspects.slice(i, i + PAGE))
  }

  async pair(ref: SkuRef, suspect: Suspect): Promise<Pair | 'strange'> {
    const { pairs } = await this.#page(ref, [suspect])
    return pairs[0] ?? 'strange'
  }

  async #page(ref: SkuRef, suspects: readonly Suspect[]) {
    const rows = await this.#rows(suspects)
    const { records, strange } = await this.#records(ref, suspects)
    const readable = suspects.filter((s) => !strange.includes(s.userId))
    const ahead = readable.filter((s) => {
      const record = records.get(key(s)) ?? null
      const verdict = compareStates(record, rows.get(s.orderNo) ?? null, false)
      return verdict.status === 'finding' && REDIS_AHEAD.has(verdict.kind)
    })
    if (ahead.length > 0)
      for (const [orderNo, row] of await this.#rows(ahead)) rows.set(orderNo, row)
    const now = Date.now()
    const pairs = readable.map((s): Pair => {
      const record = records.get(key(s)) ?? null
      const row = rows.get(s.orderNo) ?? null
      const at = row?.reservedAt ?? record?.reservedAt ?? 0
      return { ...s, record, row, ageMs: now - at }
    })
    return { pairs, strange }
  }

  async #rows(suspects: readonly Suspect[]): Promise<Map<string, OrderRow>> {
    const rows = await this.orders.find([...new Set(suspects.map((s) => s.orderNo))])
    return new Map(
      rows.map((row) => [
        row.orderNo,
        { ...row, quantity: exactNumber(row.quantity, `the quantity of ${row.orderNo}`) },
      ]),
    )
  }

  /** One record that cannot be read makes the whole question fail: then it is asked in halves. */
  async #records(
    ref: SkuRef,
    suspects: readonly Suspect[],
  ): Promise<{ readonly records: Map<string, ReservationRecord>; readonly strange: string[] }> {
    try {
      const found = await this.stock.reservations(ref, suspects)
      if (found === 'not-warmed')
        throw new FlashSaleError('NOT_WARMED', `the keys of ${ref.activityId} went away meanwhile`)
      const records = new Map<string, ReservationRecord>()
      suspects.forEach((s, i) => {
        const record = found[i]
        if (record) records.set(key(s), record)
      })
      return { records, strange: [] }
    } catch (error) {
      if (!(error instanceof FlashSaleError && error.code === 'CORRUPT')) throw error
      if (suspects.length === 1)
        return { records: new Map(), strange: suspects.map((s) => s.userId) }
      const half = suspects.length >> 1
      const [a, b] = [
        await this.#records(ref, suspects.slice(0, half)),
        await this.#records(ref, suspects.slice(half)),
      ]
      return {
        records: new Map([...a.records, ...b.records]),
        strange: [...a.strange, ...b.strange],
      }
    }
  }
}

/** Two buyers may have a record of one number. */
const key = (s: Suspect) => `${s.userId} ${s.orderNo}`
