import type { OrderBook } from '../core/order-book.js'
import type { Queue } from '../core/queue.js'
import { standing } from '../core/standing.js'
import type { Batch, Delivered } from '../core/types.js'

/**
 * Hands a batch to the queue. Units of a refused message go back only behind CLOSED rows ("surely never sent" is never
 * sure: a slow answer, a relay or a failover may have sent it); without the database the batch stays owed.
 */
export function deliverTo(
  queue: Queue,
  orders: OrderBook,
): (batch: Batch, signal: AbortSignal) => Promise<Delivered> {
  return async (batch, signal) => {
    const sent = await queue.send(batch, { signal })
    if (sent !== 'rejected') return sent
    // Past the deadline the buyer was told that he is queued: his place is not taken from him, the relay sends again.
    if (signal.aborted) return 'unknown'
    const verdicts = await orders.closeUnbooked(batch.reservations, 'send-rejected')
    const closed = verdicts.filter((v) => standing(v) === 'closed').map((v) => v.orderNo)
    return { closed }
  }
}
