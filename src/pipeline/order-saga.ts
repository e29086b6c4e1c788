import type { OrderBook } from '../core/order-book.js'
import type { Probed, SagaDefinition, StepRefused, StepResult } from '../core/saga.js'
import { moveTo } from '../core/standing.js'
import type { Move, Moved, Reservation } from '../core/types.js'

/** An order to be taken back. */
export interface OrderToUndo {
  readonly orderNo: string
  /** Becomes the reason of the CLOSED row, 1 to 200 characters. */
  readonly reason: string
  /** When the number may not have a row yet (the database failed): it then gets a CLOSED one. */
  readonly reservation?: Reservation
}

export interface OrderSagaParts {
  readonly orders: Pick<OrderBook, 'find' | 'closeUnbooked' | 'closeUnpaid' | 'released'>
  /** A `StockBucket`; left out where no Redis holds units (strong mode). */
  readonly stock?: { move(moves: readonly Move[]): Promise<readonly Moved[]> }
  /**
   * Gives back what was captured for the order, if anything, once for each refund id: one durable row, which also closes
   * a PAID order, and only then the channel. The id is the saga's with `:refund` behind it. A refusal goes to a person.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: nothing returned means decided
  refund(orderNo: string, refundId: string): Promise<void | StepRefused>
}

/**
 * The steps `close` (CONFIRMED, or without a row, becomes CLOSED in the database; a PAID order is left to the refund),
 * `give-back` (Redis is told, only now) and `refund`. Each may be repeated, and a payment or another close that comes at
 * the same time wins or loses in the database. Take a saga id of at most 57 characters: the refund's has 64.
 */
export function orderSaga(parts: OrderSagaParts): SagaDefinition<OrderToUndo> {
  const { orders, stock } = parts
  return {
    kind: 'undo-order',
    steps: [
      {
        name: 'close',
        do: ({ orderNo, reason, reservation }) => close(orders, orderNo, reason, reservation),
        probe: ({ orderNo }) => closed(orders, orderNo),
        // CLOSED is final, so a refund that is refused afterwards needs a person.
        undo: async () => ({ status: 'failed', reason: 'a closed order stays closed' }),
      },
      { name: 'give-back', do: ({ orderNo }) => giveBack(orders, stock, orderNo) },
      { name: 'refund', do: ({ orderNo }, { key }) => parts.refund(orderNo, key) },
    ],
  }
}

async function close(
  orders: OrderSagaParts['orders'],
  orderNo: string,
  reason: string,
  reservation: Reservation | undefined,
): Promise<StepResult<OrderToUndo>> {
  if (reservation && reservation.orderNo !== orderNo)
    return { status: 'failed', reason: 'the reservation of another number' }
  if (reservation) await orders.closeUnbooked([reservation], reason)
  const [verdict] = await orders.closeUnpaid([orderNo], reason)
  if (!verdict) return { status: 'failed', reason: 'not-found' }
  if (verdict.status === 'confirmed') throw new Error('the order could not be closed')
}

async function closed(
  orders: OrderSagaParts['orders'],
  orderNo: string,
): Promise<Probed<OrderToUndo>> {
  const [order] = await orders.find([orderNo])
  return { status: order && order.status !== 'confirmed' ? 'done' : 'not-done' }
}

/** If Redis does not answer, the buyer need not wait for his money: the `release` row in the outbox stays due. */
async function giveBack(
  orders: OrderSagaParts['orders'],
  stock: OrderSagaParts['stock'],
  orderNo: string,
): Promise<void> {
  const [order] = await orders.find([orderNo])
  if (!stock || order?.status !== 'closed') return
  try {
    await stock.move([moveTo(order, order)])
  } catch {
    return
  }
  await orders.released([orderNo])
}
