import { describe } from '../../core/describe.js'
import type { Verdict } from '../../core/order-book.js'
import { addManualTask } from '../manual-tasks.js'
import type { Database } from '../sql/database.js'
import type { Tx } from '../sql/tx.js'
import type { Order, OrderHooks } from './hooks.js'
import { oweReleases } from './releases.js'
import { ORDER_SELECT, orderOf, orderRow, skuKeyOf } from './rows.js'
import { returnUnits } from './stock-rows.js'
import { traceToOne } from './trace.js'
import { verdictOf } from './verdicts.js'

/**
 * Closes confirmed orders, many in one transaction: the rows by a conditional UPDATE, what Redis is owed, the host's
 * part, and the units back in the stock row last. A payment that comes first wins, and so does a close.
 */
export function closeUnpaid(
  o: { readonly database: Database; readonly hooks: OrderHooks },
  orderNos: readonly string[],
  reason: string,
): Promise<readonly Verdict[]> {
  const { database } = o
  return traceToOne(
    orderNos,
    (some) => database.write((tx) => close(tx, o, some, reason)),
    async (one, cause) => {
      const task = { kind: 'close-failed', ref: one, detail: { reason, error: describe(cause) } }
      return database.write(async (tx) => {
        await addManualTask(tx, database.tables.manualTask, task, await tx.now())
        const rows = await read(tx, database, [one])
        return rows.map((row) => verdictOf(row, false))
      })
    },
  )
}

async function close(
  tx: Tx,
  o: { readonly database: Database; readonly hooks: OrderHooks },
  orderNos: readonly string[],
  reason: string,
): Promise<readonly Verdict[]> {
  const { tables } = o.database
  const rows = await read(tx, o.database, orderNos)
  const closing = rows.filter((row) => row.status === 'confirmed').map(orderOf)
  if (closing.length > 0) {
    const now = await tx.now()
    const affected = await tx.runIn(
      `UPDATE ${tables.order} SET status = 'CLOSED', reason = ?, live_key = NULL, updated_at = ? WHERE status = 'CONFIRMED' AND order_no IN (??)`,
      [reason, now],
      closing.map((order) => order.orderNo).sort(),
    )
    if (affected !== closing.length) tx.conflict('an order was paid or closed meanwhile')
    await oweReleases(
      tx,
      tables.message,
      closing.map((order) => ({ order, reason })),
      now,
    )
    if (o.hooks.onClose) await tx.hook((trx) => o.hooks.onClose?.(trx, closing, reason))
    for (const { ref, units } of bySku(closing))
      await returnUnits(tx, tables, { ref, units, now, witness: ref.orderNo })
  }
  const closed = new Set(closing.map((order) => order.orderNo))
  return rows.map((row) =>
    closed.has(row.orderNo)
      ? { orderNo: row.orderNo, status: 'closed', reason, fresh: true }
      : verdictOf(row, false),
  )
}

async function read(tx: Tx, database: Database, orderNos: readonly string[]) {
  const sql = `SELECT ${ORDER_SELECT} FROM ${database.tables.order} WHERE order_no IN (??)`
  return (await tx.allIn(sql, orderNos)).map(orderRow)
}

/** Sorted like the confirmations, so that the two never take two stock rows in opposite order. */
function bySku(orders: readonly Order[]) {
  const sums = new Map<string, { ref: Order; units: number }>()
  for (const order of orders) {
    const key = skuKeyOf(order)
    sums.set(key, { ref: order, units: (sums.get(key)?.units ?? 0) + order.quantity })
  }
  return [...sums.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, sum]) => sum)
}
