import type { Ledger } from '../core/reconcile.js'
import type { ReservationRecord, SkuRef } from '../core/types.js'
import { RecordTable } from './record-table.js'
import { stopIfAborted } from './stop.js'

/** Names kept of what should be rare; a run that meets more lists the first. */
export const MAX_RARE = 1_000

export interface Records {
  readonly table: RecordTable
  /** Records that lie beside their buyer's mark, and are live. */
  readonly beside: readonly ReservationRecord[]
  /** Buyers whose record cannot be read. */
  readonly strange: ReadonlySet<string>
}

export interface ReadOptions {
  readonly signal: AbortSignal | undefined
  /** Rows read, page by page. */
  readonly onRows: (rows: number) => void
  /** About how many records there are. */
  readonly expected: number
}

/** All records of an SKU, page by page, into a table. */
export async function readRecords(
  stock: Pick<Ledger, 'scan'>,
  ref: SkuRef,
  o: ReadOptions,
): Promise<Records> {
  const table = new RecordTable(o.expected)
  const beside = new Map<string, ReservationRecord>()
  const strange = new Set<string>()
  for await (const page of pages(stock, ref, o)) {
    for (const r of page.rows) table.put(r.orderNo, r.state, r.quantity, r.userId)
    for (const r of page.beside)
      if (r.state !== 'released' && beside.size < MAX_RARE) beside.set(r.orderNo, r)
    for (const userId of page.strange) if (strange.size < MAX_RARE) strange.add(userId)
  }
  return { table, beside: [...beside.values()], strange }
}

/** The next page is on its way while the one before it is read. */
export async function* pages(stock: Pick<Ledger, 'scan'>, ref: SkuRef, o: ReadOptions) {
  const ask = (cursor: string) => {
    const page = stock.scan(ref, cursor)
    page.catch(() => undefined) // heard when it is awaited, which may be later or never
    return page
  }
  for (let coming: ReturnType<typeof ask> | null = ask('0'); coming; ) {
    stopIfAborted(o.signal)
    const page: Awaited<ReturnType<Ledger['scan']>> = await coming
    coming = page.next === null ? null : ask(page.next)
    o.onRows(page.rows.length)
    yield page
  }
}
