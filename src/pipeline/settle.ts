import type { OrderBook, Verdict } from '../core/order-book.js'
import { movesOf } from '../core/standing.js'
import type { Batch, Move, Moved } from '../core/types.js'

interface Stock {
  move(moves: readonly Move[]): Promise<readonly Moved[]>
  delivered(batch: Batch, outcome: 'settled'): Promise<void>
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
  const reservations = batches.flatMap((b) => b.reservations)
  await stock.move(movesOf(verdicts, reservations))
  const closed = verdicts.filter((v) => v.status === 'closed').map((v) => v.orderNo)
  if (closed.length > 0) await orders.released(closed)
  for (const batch of batches) await stock.delivered(batch, 'settled')
}
