import type { OwedRelease } from '../../core/order-book.js'
import { newOrderNo } from '../../core/order-no.js'
import type { Reservation, SkuRef } from '../../core/types.js'
import { skuKey } from './rows.js'

/** Whoever closed an order tells Redis at once; only if that failed is its release offered, after this. */
const FIRST_AFTER_MS = 15_000
const RETRY_MS = 1_000

interface Owed {
  readonly reservation: Reservation
  readonly reason: string
  readonly since: number
  dueAt: number
  lease: string
}

/** Units that Redis has to get back for closed orders. */
export class MemoryReleases {
  readonly #owed = new Map<string, Owed>()

  constructor(private readonly clock: () => number) {}

  owe(order: Reservation, reason: string): void {
    const { orderNo, activityId, skuId, userId, quantity, bucket, version, reservedAt } = order
    const since = this.clock()
    this.#owed.set(orderNo, {
      reservation: { orderNo, activityId, skuId, userId, quantity, bucket, version, reservedAt },
      ...{ reason, since, dueAt: since + FIRST_AFTER_MS, lease: '' },
    })
  }

  take(o: { readonly limit: number; readonly leaseMs: number }): readonly OwedRelease[] {
    const now = this.clock()
    const due = [...this.#owed.values()].filter((owed) => owed.dueAt <= now).slice(0, o.limit)
    return due.map((owed) => {
      owed.dueAt = now + o.leaseMs
      owed.lease = newOrderNo()
      const { lease, reservation, reason } = owed
      return { id: `release:${reservation.orderNo}`, lease, reservation, reason }
    })
  }

  /** The longest owed first. */
  olderThan(
    ref: SkuRef,
    o: { readonly olderThanMs: number; readonly limit: number },
  ): readonly string[] {
    const until = this.clock() - o.olderThanMs
    const old = [...this.#owed.values()].filter(
      ({ since, reservation }) => since <= until && skuKey(reservation) === skuKey(ref),
    )
    return old.slice(0, o.limit).map(({ reservation }) => reservation.orderNo)
  }

  done(orderNos: readonly string[]): void {
    for (const orderNo of orderNos) this.#owed.delete(orderNo)
  }

  retry(releases: readonly OwedRelease[]): void {
    for (const { reservation, lease } of releases) {
      const owed = this.#owed.get(reservation.orderNo)
      if (owed?.lease === lease) owed.dueAt = this.clock() + RETRY_MS
    }
  }
}
