import { FlashSaleError } from '../core/errors.js'
import type { OrderBook } from '../core/order-book.js'
import type { ReconcilableStock } from '../core/reconcile.js'
import type { DbNumbers, SaleNumbers, SkuRef } from '../core/types.js'
import type { Repair } from './classify.js'
import { exactNumber } from './exact-number.js'
import { type Finding, findingOf, type SaleFindingKind } from './findings.js'
import type { RecordSums } from './record-table.js'

type Stock = Pick<ReconcilableStock, 'numbers' | 'topUps'>
type Orders = Pick<OrderBook, 'numbers' | 'topUps'>

/** `corrupt`: numbers that do not add up among themselves. */
export async function redisNumbers(stock: Stock, ref: SkuRef): Promise<SaleNumbers | 'corrupt'> {
  try {
    return await stock.numbers(ref)
  } catch (error) {
    if (error instanceof FlashSaleError && error.code === 'CORRUPT') return 'corrupt'
    throw error
  }
}

export async function databaseNumbers(orders: Orders, ref: SkuRef): Promise<DbNumbers> {
  const numbers = await orders.numbers(ref)
  if (!numbers)
    throw new FlashSaleError('NOT_WARMED', `${ref.activityId} ${ref.skuId} has no stock row`)
  const { total, available, live } = numbers
  return {
    ...ref,
    total: exactNumber(total, 'total'),
    available: exactNumber(available, 'available'),
    live: exactNumber(live, 'live'),
  }
}

/** Whether nothing moved between two readings. */
export function unmoved(a: SaleNumbers, b: SaleNumbers): boolean {
  const names = ['total', 'available', 'frozen', 'sold', 'pending', 'over'] as const
  return names.every((name) => a[name] === b[name])
}

/** The number against the records that it counts; only where nothing moved while they were read. */
export function sumFindings(ref: SkuRef, n: SaleNumbers, sums: RecordSums): readonly Finding[] {
  const differs = (kind: SaleFindingKind, counted: number, recorded: number) =>
    counted === recorded
      ? []
      : [
          off(
            ref,
            kind,
            counted - recorded,
            `Redis counts ${counted} units, its records ${recorded}`,
          ),
        ]
  return [
    ...differs('pending-differs', n.pending, sums.held),
    ...differs('frozen-differs', n.frozen - n.pending, sums.confirmed),
    ...differs('sold-differs', n.sold, sums.paid),
  ]
}

/**
 * `over` is what live orders have too much, so somebody is on his way out: a reservation that the database will refuse, or
 * an order it closed (`returning`). While there are units to sell nothing is over.
 */
export function overFindings(ref: SkuRef, n: SaleNumbers, returning: number): readonly Finding[] {
  const unexplained = n.available > 0 ? n.over : Math.max(0, n.over - n.pending - returning)
  if (unexplained === 0) return []
  const what = `over is ${n.over}, ${n.available} are available, ${n.pending + returning} are on their way out`
  return [off(ref, 'over-unexplained', unexplained, what)]
}

/** S on both sides, top-up by top-up, and the database's stock row against its orders. */
export async function totalFindings(
  stock: Stock,
  orders: Orders,
  ref: SkuRef,
): Promise<{ readonly found: readonly Finding[]; readonly database: DbNumbers }> {
  const booked = await orders.topUps(ref)
  const applied = new Set((await stock.topUps(ref)).map((t) => t.operationId))
  const n = await stock.numbers(ref)
  const after = await stock.topUps(ref)
  const database = await databaseNumbers(orders, ref)
  if (!booked) return { found: [], database }
  const found: Finding[] = []
  let owed = 0
  for (const { operationId, units } of booked.operations) {
    if (applied.has(operationId)) continue
    owed += exactNumber(units, `the units of ${operationId}`)
    found.push(
      about(ref, 'top-up-owed', operationId, units, 'in the database, not in Redis', 'top-up'),
    )
  }
  const known = new Set(booked.operations.map((t) => t.operationId))
  let unbooked = 0
  for (const { operationId, units } of after) {
    if (known.has(operationId)) continue
    unbooked += units
    found.push(
      about(ref, 'top-up-unbooked', operationId, units, 'in Redis, not in the database', 'manual'),
    )
  }
  const by = n.total - n.over + owed - unbooked - exactNumber(booked.total, 'total')
  if (by !== 0) found.push(off(ref, 'total-differs', by, `S differs by ${by} in Redis`))
  const { total, live, available } = database
  const missing = total - live - available
  if (missing !== 0) {
    const what = `the stock row has ${available} of ${total}, its orders ${live}`
    found.push(off(ref, 'stock-row-differs', missing, what))
  }
  return { found, database }
}

function off(ref: SkuRef, kind: SaleFindingKind, by: number, evidence: string): Finding {
  return findingOf({ ...ref, kind, units: Math.abs(by), evidence, repair: 'manual' })
}

function about(
  ref: SkuRef,
  kind: SaleFindingKind,
  subject: string,
  units: number,
  where: string,
  repair: Repair,
): Finding {
  const evidence = `top-up ${subject} of ${units} units is ${where}`
  return findingOf({ ...ref, kind, subject, units: Math.abs(units), evidence, repair })
}
