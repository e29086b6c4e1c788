import {
  newOrderNo,
  type PaymentRecords,
  type PaymentRow,
  type Reservation,
  TriangleReconciler,
  type TriangleReconcilerOptions,
} from 'flash-sale-kit'
import type { Shop } from '../pipeline/shop.js'
import { SKU } from '../pipeline/shop.js'

/** Long past the grace time of these tests. */
const OLD_MS = 3_600_000
export const GRACE_MS = 60_000

export function reservation(shop: Shop, userId: string, o: Partial<Reservation> = {}): Reservation {
  const at = Date.now() - OLD_MS
  return {
    ...shop.ref,
    orderNo: newOrderNo(at),
    userId,
    quantity: 1,
    bucket: 0,
    version: '1',
    reservedAt: at,
    ...o,
  }
}

/** Takes a unit as the sale does; it is then on its way. */
export async function fresh(shop: Shop, userId: string): Promise<Reservation> {
  const answer = await shop.buy(userId)
  const record = await shop.sale.stock.reservation(shop.ref, userId)
  if (typeof record === 'string') throw new Error(`${record}: ${JSON.stringify(answer)}`)
  return record
}

/** Takes a unit as if an hour ago. */
export async function deducted(shop: Shop, userId: string): Promise<Reservation> {
  const record = await fresh(shop, userId)
  const reservedAt = Date.now() - OLD_MS
  await hset(shop, 'done', { [userId]: `h|${record.orderNo}|${record.quantity}|${reservedAt}|` })
  return { ...record, reservedAt }
}

/** A good order: taken, confirmed, and Redis told. */
export async function confirmed(shop: Shop, userId: string): Promise<Reservation> {
  const r = await deducted(shop, userId)
  await shop.orders.confirm([r])
  await tell(shop, 'confirmed', r)
  return r
}

export const tell = (shop: Shop, to: 'confirmed' | 'paid', r: Reservation) =>
  shop.sale.stock.move([{ to, reservation: r }])
export const release = (shop: Shop, r: Reservation) =>
  shop.sale.stock.move([{ to: 'released', reservation: r, reason: 'closed' }])
export const order = (shop: Shop, r: Reservation) =>
  shop.knex('seckill_order').where('order_no', r.orderNo)
export const pay = (shop: Shop, r: Reservation) => order(shop, r).update({ status: 'PAID' })

export async function paid(shop: Shop, userId: string): Promise<Reservation> {
  const r = await confirmed(shop, userId)
  await pay(shop, r)
  await tell(shop, 'paid', r)
  return r
}

type Key = 'sale' | 'released' | 'batch' | 'stock' | 'done' | 'owed'
export function keyOf(shop: Shop, key: Key): string {
  const tag = `seckill:${key}:{${shop.ref.activityId}}`
  return key === 'stock' || key === 'done' ? `${tag}:${SKU}` : tag
}

/** Writes into Redis behind the library's back. */
export async function hset(shop: Shop, key: Key, fields: Record<string, string | number>) {
  for (const [field, value] of Object.entries(fields))
    await shop.redis.eval(
      `return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])`,
      1,
      keyOf(shop, key),
      field,
      String(value),
    )
}

/** Adds to the numbers of the stock. */
export async function shift(shop: Shop, by: Record<string, number>) {
  const numbers = await shop.sale.stock.numbers(shop.ref)
  const entries = Object.entries(by).map(([name, n]) => [
    name,
    Number(numbers[name as 'available']) + n,
  ])
  await hset(shop, 'stock', Object.fromEntries(entries))
}

/** Payments kept in memory. */
export class FakePayments implements PaymentRecords {
  readonly rows: PaymentRow[] = []

  async *snapshot({ activityId, skuId }: { activityId: string; skuId: string }) {
    const mine = this.rows.filter((p) => p.activityId === activityId && p.skuId === skuId)
    yield* mine.sort((a, b) => (a.orderNo < b.orderNo ? -1 : 1))
  }

  async find(orderNos: readonly string[]) {
    const named = new Set(orderNos)
    return this.rows.filter((p) => named.has(p.orderNo) || named.has(p.paidOrderNo ?? ''))
  }

  add(r: Reservation, o: Partial<PaymentRow> = {}) {
    const { activityId, skuId, orderNo } = r
    const amount = { amountMinor: 100, capturedMinor: 100, refundingMinor: 0, refundedMinor: 0 }
    const paymentId = `pay-${this.rows.length}-${orderNo}`
    const base = { activityId, skuId, orderNo, paidOrderNo: orderNo, channel: 'test', paymentId }
    this.rows.push({ ...base, ...amount, currency: 'CNY', status: 'paid', ...o })
  }
}

/** The shop's money; each shop has its own. */
const money = new WeakMap<Shop, FakePayments>()
export function paymentsOf(shop: Shop): FakePayments {
  const there = money.get(shop) ?? new FakePayments()
  money.set(shop, there)
  return there
}

export interface Told {
  readonly code: string
  readonly detail: { readonly [key: string]: unknown }
}

export function reconcilerOf(
  shop: Shop,
  o: Partial<TriangleReconcilerOptions> & { readonly told?: Told[] } = {},
): TriangleReconciler {
  const { told, ...more } = o
  const { orders, activities, sale } = shop
  return new TriangleReconciler({
    stock: sale.stock,
    orders,
    activities,
    control: shop.options.control,
    graceMs: GRACE_MS,
    settleMs: 5,
    ...(told ? { events: { onAlert: (code, detail) => void told.push({ code, detail }) } } : {}),
    ...more,
  })
}
