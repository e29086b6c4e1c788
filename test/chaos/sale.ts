import {
  type Activity,
  FlashSale,
  MemoryQueue,
  type RedisLike,
  TriangleReconciler,
} from 'flash-sale-kit'
import {
  KnexActivityControl,
  KnexActivityStore,
  KnexOrderBook,
  KnexPaymentBook,
} from 'flash-sale-kit/knex'
import type { Knex } from 'knex'

export const REF = { activityId: 'a1', skuId: 's1' } as const
const AUDIT = { actor: 'chaos', reason: 'a sale that is disturbed' } as const
export interface Window {
  readonly opensInMs: number
  readonly endsInMs: number
}

const OPEN: Window = { opensInMs: -60_000, endsInMs: 3_600_000 }

export interface Stock {
  readonly units: number
  /** How long an order may stay unpaid. */
  readonly payWithinMs: number
}

function termsOf({ units, payWithinMs }: Stock, { opensInMs, endsInMs }: Window): Activity {
  const now = Date.now()
  return {
    ...{ activityId: REF.activityId, version: '1', mode: 'queued', tokens: 'required' },
    ...{ opensAt: now + opensInMs, endsAt: now + endsInMs, payWithinMs },
    maxPerOrder: 1,
    skus: [{ skuId: REF.skuId, units, priceMinor: 9_900, currency: 'CNY' }],
  }
}

/**
 * The sale as its operator sees it, on connections of his own that no fault is put in front of.
 */
export async function openSale(redis: RedisLike, knex: Knex, on: Stock, window = OPEN) {
  await KnexOrderBook.migrate(knex)
  const orders = new KnexOrderBook({ knex })
  const activities = new KnexActivityStore({ knex })
  const control = new KnexActivityControl({ knex })
  const payments = new KnexPaymentBook({ knex })
  const sale = new FlashSale({ redis, queue: new MemoryQueue(), orders, activities, control })
  const { stock } = sale
  let terms = termsOf(on, window)
  const open = async () => {
    terms = termsOf(on, window)
    await activities.save(terms)
    await sale.warmUp(REF.activityId, AUDIT)
    await sale.control(REF.activityId, 'open', AUDIT)
  }
  // No grace and nothing under way: at rest every difference is one.
  const reconciler = new TriangleReconciler({
    ...{ stock, orders, activities, control, payments },
    graceMs: 0,
  })
  return {
    get terms() {
      return terms
    },
    /** Puts it on sale, by the window from now. */
    open,
    units: on.units,
    knex,
    stock,
    orders,
    control,
    payments,
    reconciler,
    stop: () => sale.stop(),
  }
}

export type Sale = Awaited<ReturnType<typeof openSale>>
