import type { OrderBook, Verdict } from '../core/order-book.js'
import { moveTo } from '../core/standing.js'
import type { Batch, Move, Moved, Reservation } from '../core/types.js'

interface Stock {
  move(moves: readonly Move[]): Promise<readonly Moved[]>
  delivered(batch: Batch, outcome: 'settled'): Promise<void>
}

/** What Redis has to be told of the database's verdicts. */
export function movesOf(
  reservations: readonly Reservation[],
  verdicts: readonly Verdict[],
): readonly Move[] {
  const byNumber = new Map(reservations.map((r) => [r.orderNo, r]))
  return verdicts.flatMap((verdict) => {
    const reservation = byNumber.get(verdict.orderNo)
    return reservation ? [moveTo(verdict, reservation)] : []
  })
}

/**
 * Tells Redis what the database has decided (after its COMMIT, never before), and that nothing of these batches is left
 * to watch. All of it may be repeated. When it fails nothing is lost: the batches stay watched, and closings wait in
 * the outbox for the relay.
 */
export async function settle(
  stock: Stock,
  orders: Pick<OrderBook, 'released'>,
  batches: readonly Batch[],
  verdicts: readonly Verdict[],
): Promise<void> {
  await stock.move(
    movesOf(
      batches.flatMap((b) => b.reservations),
      verdicts,
    ),
  )
  const closed = verdicts.filter((v) => v.status === 'closed').map((v) => v.orderNo)
  if (closed.length > 0) await orders.released(closed)
  for (const batch of batches) await stock.delivered(batch, 'settled')
}
