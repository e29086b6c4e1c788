import {
  type Activity,
  FlashSale,
  type FlashSaleOptions,
  MemoryQueue,
  type RedisLike,
  TokenIssuer,
} from 'flash-sale-kit'
import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from 'flash-sale-kit/knex'
import type { Knex } from 'knex'
import { onTestFinished } from 'vitest'

export const AUDIT = { actor: 'op', reason: 'a test' } as const
export const SKU = 's1'

/** Where a suite runs: a Redis (or its mock) and a database, shared by its tests, which use activities of their own. */
export interface Backend {
  readonly redis: RedisLike
  readonly knex: Knex
}

/** A Redis that can be told to fail, and counts what it is asked. */
export class FickleRedis implements RedisLike {
  calls = 0
  /** Rejects with this instead of asking. */
  failure: Error | null = null

  constructor(private readonly redis: RedisLike) {}

  evalsha(sha: string, keys: number, ...args: string[]): Promise<unknown> {
    this.calls++
    return this.failure ? Promise.reject(this.failure) : this.redis.evalsha(sha, keys, ...args)
  }

  eval(lua: string, keys: number, ...args: string[]): Promise<unknown> {
    this.calls++
    return this.failure ? Promise.reject(this.failure) : this.redis.eval(lua, keys, ...args)
  }
}

export interface ShopOptions {
  readonly activity?: Partial<Activity>
  readonly units?: number
  readonly open?: boolean
  readonly warm?: boolean
  readonly sale?: Partial<FlashSaleOptions>
}

let shops = 0

/**
 * A sale of one SKU, warmed and open unless told otherwise; nothing runs in the background. What the test starts is stopped
 * when it ends: a relay serves every live activity, the next test's too.
 */
export async function openShop(backend: Backend, o: ShopOptions = {}) {
  const { knex } = backend
  const redis = new FickleRedis(backend.redis)
  const orders = new KnexOrderBook({ knex })
  const activities = new KnexActivityStore({ knex })
  const now = Date.now()
  const activityId = `act${++shops}-${now.toString(36)}`
  const activity: Activity = {
    activityId,
    version: '1',
    opensAt: now - 60_000,
    endsAt: now + 3_600_000,
    payWithinMs: 900_000,
    mode: 'queued',
    tokens: 'off',
    maxPerOrder: 2,
    skus: [{ skuId: SKU, units: o.units ?? 10, priceMinor: 100, currency: 'CNY' }],
    ...o.activity,
  }
  await activities.save(activity)
  const queue = new MemoryQueue({ retryMs: 20 })
  const alerts: string[] = []
  const refused: string[] = []
  const options: FlashSaleOptions = {
    redis,
    queue,
    orders,
    activities,
    control: new KnexActivityControl({ knex }),
    tokens: new TokenIssuer({ keys: [{ kid: 't', secret: Buffer.alloc(32, 7) }] }),
    refreshMs: 50,
    events: {
      onAlert: (code) => alerts.push(code),
      onRefused: (layer, refusal) => refused.push(`${layer}:${refusal.status}`),
    },
    ...o.sale,
    // A machine with other work may keep the mock from answering as fast as a Redis would.
    stock: { maxWaitMs: 10_000, ...o.sale?.stock },
  }
  const stopped = (made: FlashSale) => {
    onTestFinished(() => made.stop({ drainMs: 1_000 }))
    return made
  }
  const sale = stopped(new FlashSale(options))
  const ref = { activityId, skuId: SKU }
  if (o.warm !== false) await sale.warmUp(activityId, AUDIT)
  if (o.warm !== false && o.open !== false) await sale.control(activityId, 'open', AUDIT)
  const shop = {
    ...{ sale, redis, knex, orders, activities, queue, activity, ref, alerts, refused, options },
    /** Another process on the same data. */
    restarted: (changed: Partial<FlashSaleOptions> = {}) =>
      stopped(new FlashSale({ ...options, ...changed })),
    buy: (userId: string, more: object = {}) =>
      sale.submit({ ...ref, buyer: { userId, ip: '10.0.0.1' }, ...more }),
    result: (userId: string) => sale.result({ ...ref, userId }),
  }
  return shop
}

export type Shop = Awaited<ReturnType<typeof openShop>>
