import { deepEqual, equal, fail, ok } from 'node:assert/strict'
import type { OrderBook, OrderRow, OwedRelease } from '../../core/order-book.js'
import { newOrderNo } from '../../core/order-no.js'
import type { Activity, DbNumbers, Reservation, SkuRef } from '../../core/types.js'
import type { OrderBookUnderTest } from '../order-book-suite.js'

export const PRICE = 990
export const BY = { actor: 'suite', reason: 'a test of the suite' } as const
/** Longer than any book keeps a release back for those who closed the order. */
export const LONG_MS = 3_600_000

/** A book on the bench, and sales of the case's own. */
export class BookBench {
  readonly book: OrderBook
  readonly other: OrderBook
  readonly #refs: SkuRef[] = []
  #buyers = 0

  constructor(readonly under: OrderBookUnderTest) {
    this.book = under.book
    this.other = under.another()
  }

  /** An activity with a stock row of each SKU (`s1`, `s2` …), unless it is not to be prepared. */
  async sale(
    o: Partial<Activity> & { units?: number; skuCount?: number; prepared?: boolean } = {},
  ): Promise<Activity> {
    const { units = 100, skuCount = 1, prepared = true, ...terms } = o
    const now = Date.now()
    const activity: Activity = {
      activityId: `suite-${newOrderNo()}`,
      version: 'v1',
      opensAt: now - 60_000,
      endsAt: now + 3_600_000,
      payWithinMs: 900_000,
      mode: 'queued',
      tokens: 'off',
      maxPerOrder: 10,
      skus: Array.from({ length: skuCount }, (_, i) => ({
        ...{ skuId: `s${i + 1}`, units, priceMinor: PRICE, currency: 'CNY' },
      })),
      ...terms,
    }
    this.#refs.push(...activity.skus.map(({ skuId }) => refOf(activity, skuId)))
    if (prepared) await this.book.prepare(activity)
    return activity
  }

  order(activity: Activity, o: Partial<Reservation> = {}): Reservation {
    return {
      orderNo: newOrderNo(),
      ...refOf(activity),
      userId: `u${++this.#buyers}`,
      quantity: 1,
      bucket: 0,
      version: activity.version,
      reservedAt: Date.now(),
      ...o,
    }
  }

  orders(activity: Activity, count: number, o: Partial<Reservation> = {}): readonly Reservation[] {
    return Array.from({ length: count }, () => this.order(activity, o))
  }

  async row(orderNo: string): Promise<OrderRow> {
    const [row] = await this.book.find([orderNo])
    return row ?? fail(`there is no row of ${orderNo}`)
  }

  async numbers(ref: SkuRef): Promise<DbNumbers> {
    return (await this.book.numbers(ref)) ?? fail(`there are no numbers of ${ref.skuId}`)
  }

  /** What Redis is owed of a sale, after a long time, each number once. */
  async owed(activity: Activity): Promise<readonly OwedRelease[]> {
    await this.under.passTime(LONG_MS)
    const all = new Map<string, OwedRelease>()
    for (;;) {
      const some = await this.book.takeReleases({ limit: 100, leaseMs: LONG_MS })
      if (some.length === 0) break
      for (const release of some) {
        const { orderNo } = release.reservation
        if (all.has(orderNo)) fail('a release is given to a second taker while its lease is good')
        all.set(orderNo, release)
      }
    }
    return [...all.values()].filter((r) => r.reservation.activityId === activity.activityId)
  }

  /** After each case: units add up, and no buyer has two live orders. */
  async close(): Promise<void> {
    try {
      for (const ref of this.#refs) await this.#sound(ref)
    } finally {
      await this.under.close()
    }
  }

  async #sound(ref: SkuRef): Promise<void> {
    const numbers = await this.book.numbers(ref)
    if (!numbers) return
    const { total, available, live } = numbers
    ok(available >= 0, `${available} units are available`)
    equal(available, total - live, 'available = total - live')
    const buyers: string[] = []
    let units = 0
    for await (const row of this.book.snapshot(ref)) {
      if (row.status === 'closed') continue
      buyers.push(row.userId)
      units += row.quantity
    }
    deepEqual(new Set(buyers).size, buyers.length, 'a buyer has two live orders')
    equal(units, live, 'live is what live orders hold')
  }
}

export const refOf = ({ activityId }: Activity, skuId = 's1'): SkuRef => ({ activityId, skuId })

/** `{confirmed: 3, 'closed: sold-out': 1}`. */
export function tally(
  outcomes: readonly { readonly status: string; readonly reason?: string | null }[],
): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status, reason } of outcomes) {
    const key = reason ? `${status}: ${reason}` : status
    counts[key] = (counts[key] ?? 0) + 1
  }
  return counts
}
