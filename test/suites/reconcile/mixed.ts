import type { Report } from 'flash-sale-kit'
import type { Shop } from '../pipeline/shop.js'
import { PLANTS } from './plants.js'
import { paymentsOf } from './world.js'

export const MIXED = PLANTS.filter((p) => p.mixes)

/** Every class that fits beside the others in one sale; all money but the planted is in order. */
export async function plantAll(shop: Shop): Promise<void> {
  for (const [i, p] of MIXED.entries()) await p.plant(shop, `${p.money ? 'm' : 'p'}${i}`)
  const paid: { order_no: string; user_id: string }[] = await shop
    .knex('seckill_order')
    .where({ activity_id: shop.ref.activityId, status: 'PAID' })
    .select('order_no', 'user_id')
  for (const { order_no, user_id } of paid)
    if (user_id.startsWith('p'))
      paymentsOf(shop).add({ ...shop.ref, orderNo: order_no } as Parameters<
        ReturnType<typeof paymentsOf>['add']
      >[0])
}

/** How many of each kind were planted. */
export function planted(isManual?: boolean): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { kind, repair } of MIXED)
    if (isManual === undefined || isManual === (repair === 'manual'))
      counts[kind] = (counts[kind] ?? 0) + 1
  return counts
}

export const idsOf = (report: Report) => report.findings.map((f) => f.id).sort()

/** Clicks so many times a second until told to stop; resolves with the buyers who hold a unit. */
export function clicks(shop: Shop, perSecond: number): () => Promise<readonly string[]> {
  const queued: string[] = []
  const asked: Promise<void>[] = []
  let n = 0
  const timer = setInterval(() => {
    const user = `l${n++}`
    asked.push(
      shop.buy(user).then(({ status }) => {
        if (status === 'queued') queued.push(user)
      }),
    )
  }, 1_000 / perSecond)
  return async () => {
    clearInterval(timer)
    await Promise.all(asked)
    return queued
  }
}
