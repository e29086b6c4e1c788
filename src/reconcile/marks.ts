import type { OrderBook } from '../core/order-book.js'
import type { ReconcilableStock } from '../core/reconcile.js'
import type { ReservationRecord, SkuRef } from '../core/types.js'
import { type Finding, findingOf } from './findings.js'
import type { Pair } from './second-look.js'
import { stopIfAborted } from './stop.js'

/** A live order beside a mark that names no other live one: its buyer could be admitted in vain again. */
export async function markMissing(
  stock: Pick<ReconcilableStock, 'reservation'>,
  ref: SkuRef,
  { record, row }: Pick<Pair, 'record' | 'row'>,
): Promise<Finding | null> {
  if (!record || record.state === 'released' || !row || row.status === 'closed') return null
  const mark = await stock.reservation(ref, record.userId)
  if (mark === 'not-warmed' || !isFree(mark)) return null
  const evidence = `Redis: ${record.state}, beside a mark that is ${mark === 'none' ? 'missing' : 'released'}`
  return findingOf({
    ...ref,
    kind: 'mark-missing',
    orderNo: record.orderNo,
    userId: record.userId,
    units: record.quantity,
    evidence,
    repair: 'confirm',
  })
}

const isFree = (mark: ReservationRecord | 'none') => mark === 'none' || mark.state === 'released'

/** Reads the orders once more for the numbers of buyers who seem to have two live ones: all from one view. */
export async function twoLiveOrders(
  orders: Pick<OrderBook, 'snapshot'>,
  ref: SkuRef,
  buyers: ReadonlySet<string>,
  signal: AbortSignal | undefined,
): Promise<readonly Finding[]> {
  if (buyers.size === 0) return []
  const live = new Map<string, { orderNos: string[]; units: number }>()
  for await (const row of orders.snapshot(ref)) {
    if (row.status === 'closed' || !buyers.has(row.userId)) continue
    stopIfAborted(signal)
    const of = live.get(row.userId) ?? { orderNos: [], units: 0 }
    // The first is his good right.
    if (of.orderNos.length > 0) of.units += Number(row.quantity)
    of.orderNos.push(row.orderNo)
    live.set(row.userId, of)
  }
  return [...live]
    .filter(([, { orderNos }]) => orderNos.length > 1)
    .map(([userId, { orderNos, units }]) =>
      findingOf({
        ...ref,
        kind: 'two-live-orders',
        userId,
        units,
        evidence: `live orders of one buyer: ${orderNos.slice(0, 10).join(', ')}`,
        repair: 'manual',
      }),
    )
}
