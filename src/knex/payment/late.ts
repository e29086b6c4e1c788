import type { OrderRow } from '../../core/order-book.js'
import type { Order } from '../order/hooks.js'
import { liveKeyOf, type OnePer, orderInsert, orderOf, skuKeyOf } from '../order/rows.js'
import { readStocks, type Stock, takeUnits } from '../order/stock-rows.js'
import { openActivities } from '../order/stopped.js'
import type { Database } from '../sql/database.js'
import type { Tx } from '../sql/tx.js'

/** Units for a new order in place of a closed one, or why there are none. */
export type Reserved =
  | {
      readonly order: Order
      readonly insert: () => Promise<void>
      /** Last, because everybody waits for the stock row. */
      readonly take: () => Promise<void>
    }
  | { readonly refused: 'stopped' | 'already-bought' | 'version-mismatch' | 'sold-out' }

/**
 * Looks whether a closed order can be replaced by a new one, PAID. CLOSED is final: with the same number again, Redis,
 * which has released it, would have to take a released number back.
 */
export async function reserveLate(
  tx: Tx,
  o: { readonly database: Database; readonly onePer: OnePer },
  closed: OrderRow,
  newOrderNo: string,
  now: number,
): Promise<Reserved> {
  const { tables, dialect } = o.database
  const open = await openActivities(tx, tables.activity, [closed.activityId])
  if (!open.has(closed.activityId)) return { refused: 'stopped' }
  const liveKey = liveKeyOf(closed, o.onePer)
  const holder = await tx.all(`SELECT order_no FROM ${tables.order} WHERE live_key = ?`, [liveKey])
  if (holder.length > 0) return { refused: 'already-bought' }
  // Once beaten, lock before looking: what fits then fits to the end.
  const lock = tx.afterConflict ? dialect.forUpdate : ''
  const { stocks } = await readStocks(tx, tables.stock, [closed], lock)
  const stock = stocks.get(skuKeyOf(closed))
  if (stock?.version !== closed.version) return { refused: 'version-mismatch' }
  if ((stock as Stock).available < closed.quantity) return { refused: 'sold-out' }
  const order: Order = { ...orderOf(closed), orderNo: newOrderNo, reservedAt: now, payBy: now }
  const insert = () => {
    const { columns, values } = orderInsert([{ order, liveKey, paid: true }], now)
    return tx.insert(tables.order, columns, values)
  }
  const take = async () => {
    const taken = await takeUnits(tx, tables, {
      stock: stock as Stock,
      units: order.quantity,
      now,
      how: 'conditional',
      witness: order.orderNo,
      witnessStatus: 'PAID',
    })
    if (!taken) tx.conflict(`${order.quantity} units of ${order.skuId} are gone`)
  }
  return { order, insert, take }
}
