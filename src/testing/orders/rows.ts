import type { OrderRow, Verdict } from '../../core/order-book.js'
import { NO_CURRENCY, standing } from '../../core/standing.js'
import type { Activity, Reservation, SkuRef } from '../../core/types.js'

/** A stock row: the terms of a version, and what is left of its units. */
export interface Stock extends SkuRef {
  readonly version: string
  readonly priceMinor: number
  readonly currency: string
  readonly payWithinMs: number
  readonly maxPerOrder: number
  total: number
  available: number
}

export const skuKey = ({ activityId, skuId }: SkuRef) => `${activityId}|${skuId}`

export function stocksOf(activity: Activity): readonly Stock[] {
  const { activityId, version, payWithinMs, maxPerOrder } = activity
  return activity.skus.map(({ skuId, units, priceMinor, currency }) => ({
    ...{ activityId, skuId, version, priceMinor, currency, payWithinMs, maxPerOrder },
    total: units,
    available: units,
  }))
}

/** The price of the reservation's own version; without one, none. */
export function amountOf(r: Reservation, stock: Stock | undefined, now: number) {
  if (stock?.version !== r.version) return { amountMinor: 0, currency: NO_CURRENCY, payBy: now }
  const { priceMinor, currency, payWithinMs } = stock
  return { amountMinor: r.quantity * priceMinor, currency, payBy: now + payWithinMs }
}

/** Orders closed as `refunded` keep their units until a top-up. */
export function liveUnits(rows: readonly OrderRow[]): number {
  const live = rows.filter((row) => standing(row) !== 'closed')
  return live.reduce((sum, row) => sum + row.quantity, 0)
}

export function verdictOf({ orderNo, status, reason }: OrderRow, fresh: boolean): Verdict {
  return status === 'closed'
    ? { orderNo, status, reason: reason ?? '', fresh }
    : { orderNo, status, fresh }
}
