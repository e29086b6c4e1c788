import { pause } from '../core/background.js'
import type { OrderBook, OrderRow } from '../core/order-book.js'
import type { Ledger } from '../core/reconcile.js'
import { moveTo } from '../core/standing.js'
import type { DbNumbers, Move, ReservationRecord, SaleNumbers, SkuRef } from '../core/types.js'

interface Sides {
  readonly stock: Ledger
  readonly orders: Pick<OrderBook, 'snapshot' | 'numbers'>
}

const PAGE = 500
/** Between a COMMIT and what Redis is told of it lie milliseconds; a machine with other work may take longer. */
const LOOKS = 10
const PAUSE_MS = 100

/**
 * What was decided between the snapshot of a rebuild and its end: a number confirmed meanwhile is adopted, one closed
 * meanwhile goes back. Returns how many; null when Redis has lost its keys again.
 */
export async function catchUp(
  { stock, orders }: Sides,
  ref: SkuRef,
  signal: AbortSignal,
): Promise<{ readonly adopted: number; readonly returned: number } | null> {
  const made = { adopted: 0, returned: 0 }
  let page: OrderRow[] = []
  const look = async (): Promise<boolean> => {
    signal.throwIfAborted()
    const records = page.length > 0 ? await stock.reservations(ref, page) : []
    if (records === 'not-warmed') return false
    const moves = page.flatMap((row, i) => moveOf(row, records[i] ?? null) ?? [])
    if (moves.length > 0) await stock.move(moves)
    for (const move of moves) made[move.to === 'released' ? 'returned' : 'adopted']++
    page = []
    return true
  }
  for await (const row of orders.snapshot(ref)) {
    page.push(row)
    if (page.length === PAGE && !(await look())) return null
  }
  return (await look()) ? made : null
}

/** What Redis has to be told of a row; null when it knows. */
function moveOf(row: OrderRow, record: ReservationRecord | null): Move | null {
  const { orderNo, activityId, skuId, userId, quantity, bucket, version, reservedAt } = row
  const reservation = { orderNo, activityId, skuId, userId, quantity, bucket, version, reservedAt }
  const known = record?.state ?? 'none'
  const move = moveTo(row, reservation)
  if (move.to === 'released') return known === 'held' || known === 'confirmed' ? move : null
  return known === move.to || known === 'paid' || known === 'released' ? null : move
}

/** Both sides' numbers of an SKU, and whether they say the same. While workers go on, they need a few looks to agree. */
export async function sameNumbers(
  { stock, orders }: Sides,
  ref: SkuRef,
  signal: AbortSignal,
): Promise<{ readonly same: boolean; readonly redis: SaleNumbers; readonly database: DbNumbers }> {
  for (let looks = 1; ; looks++) {
    const database = (await orders.numbers(ref)) ?? { ...ref, total: 0, available: 0, live: 0 }
    const redis = await stock.numbers(ref)
    const same =
      redis.total - redis.over === database.total &&
      redis.available - redis.over === database.available &&
      redis.pending === 0
    if (same || looks === LOOKS) return { same, redis, database }
    await pause(PAUSE_MS, signal)
    signal.throwIfAborted()
  }
}
