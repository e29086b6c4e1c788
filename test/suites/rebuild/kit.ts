import type { OrderRow } from 'flash-sale-kit'
import type { Redis } from 'ioredis'
import { expect } from 'vitest'
import { until } from '../../harness/net.js'
import { AUDIT, type Backend, openShop, type Shop, type ShopOptions } from '../pipeline/shop.js'

export interface RealBackend extends Backend {
  readonly redis: Redis
}

/** C04: S = 100, 40 sold (paid), 10 ordered and unpaid. Nothing runs in the background afterwards. */
export async function halfSold(backend: Backend, o: ShopOptions = {}): Promise<Shop> {
  // Exact answers are counted: on a machine with other work nobody must hear `busy` or `unknown` instead.
  const patient = { stock: { maxWaitMs: 60_000, timeoutMs: 60_000 } }
  const shop = await openShop(backend, { units: 100, ...o, sale: { ...patient, ...o.sale } })
  await bought(shop, 50)
  await paid(shop, 40)
  return shop
}

/** `n` buyers named u0, u1, … whose orders are confirmed. */
export async function bought(shop: Shop, n: number): Promise<void> {
  const seller = shop.restarted()
  const worker = seller.worker({ ordersPerSecond: 10_000, database: null })
  for (let i = 0; i < n; i++)
    expect(await seller.submit({ ...shop.ref, buyer: buyer(i) })).toMatchObject({
      status: 'queued',
    })
  await worker.start()
  await decided(shop)
  await worker.stop()
}

export async function decided(shop: Shop): Promise<void> {
  const done = async () => (await shop.sale.stock.numbers(shop.ref)).waiting === 0
  await until('everything is decided', done)
}

async function paid(shop: Shop, n: number): Promise<void> {
  const orders = []
  for await (const row of shop.orders.snapshot(shop.ref)) orders.push(row)
  const some = orders.slice(0, n)
  const numbers = some.map((o) => o.orderNo)
  await shop.knex('seckill_order').whereIn('order_no', numbers).update({ status: 'PAID' })
  await shop.sale.stock.move(
    some.map(({ status: _, reason: __, amountMinor: ___, currency: ____, payBy: _____, ...r }) => ({
      to: 'paid',
      reservation: r,
    })),
  )
}

export const buyer = (i: number | string) => ({ userId: `u${i}`, ip: '10.0.0.1' })

/** 500 clicks, half of them by those who have bought (again and again): how many heard what. */
export async function rush(shop: Shop, bought: number): Promise<Record<string, number>> {
  const heard: Record<string, number> = {}
  const clicks = Array.from({ length: 500 }, (_, i) => (i % 2 ? `new${i}` : i % bought))
  await Promise.all(
    clicks.map(async (who) => {
      const { status } = await shop.sale.submit({ ...shop.ref, buyer: buyer(who) })
      heard[status] = (heard[status] ?? 0) + 1
    }),
  )
  return heard
}

/** total − over = S, total = available + frozen + sold, live ≤ S, one live order a buyer, and each of them has his mark. */
export async function expectSound(shop: Shop, units: number): Promise<void> {
  const redis = await shop.sale.stock.numbers(shop.ref)
  expect(redis.total - redis.over, JSON.stringify(redis)).toBe(units)
  expect(redis.total).toBe(redis.available + redis.frozen + redis.sold)
  const live: OrderRow[] = []
  for await (const row of shop.orders.snapshot(shop.ref))
    if (row.status !== 'closed') live.push(row)
  expect(live.reduce((sum, o) => sum + o.quantity, 0)).toBeLessThanOrEqual(units)
  expect(new Set(live.map((o) => o.userId)).size).toBe(live.length)
  const records = await shop.sale.stock.reservations(shop.ref, live)
  if (records === 'not-warmed') throw new Error(records)
  live.forEach((order, i) => {
    expect(records[i], order.userId).toMatchObject({ orderNo: order.orderNo, state: order.status })
  })
  const state = (s: string) =>
    live.filter((o) => o.status === s).reduce((sum, o) => sum + o.quantity, 0)
  expect(redis.sold).toBe(state('paid'))
  expect(redis.frozen - redis.pending).toBe(state('confirmed'))
  const database = await shop.orders.numbers(shop.ref)
  expect(redis.available - redis.over + redis.pending).toBe(database?.available)
}

/** Confirms whatever is on its way, then looks. */
export async function settled(shop: Shop, units: number): Promise<void> {
  const worker = shop.sale.worker({ ordersPerSecond: 10_000, database: null })
  await worker.start()
  await decided(shop)
  await worker.stop()
  await expectSound(shop, units)
}

export const keysOf = (redis: Redis, shop: Shop) => redis.keys(`seckill:*{${shop.ref.activityId}}*`)

/** A copy of all keys of a sale, and how to put it back: a Redis gone back in time. */
export async function dumped(redis: Redis, shop: Shop): Promise<() => Promise<void>> {
  const keys = await keysOf(redis, shop)
  const dumps = await Promise.all(keys.map((key) => redis.dumpBuffer(key)))
  return async () => {
    const now = await keysOf(redis, shop)
    if (now.length > 0) await redis.del(...now)
    await Promise.all(keys.map((key, i) => redis.restore(key, 0, dumps[i] as Buffer)))
  }
}

export { AUDIT }
