import { type Reservation, TriangleReconciler } from 'flash-sale-kit'
import { KnexOutbox } from 'flash-sale-kit/knex'
import { describe, expect, test } from 'vitest'
import { type Backend, openShop, type Shop, SKU } from '../pipeline/shop.js'

const DOWN = new Error('Connection is closed.')
const AUDIT = { actor: 'op', reason: 'Redis is back' } as const

/** What the order book owes Redis is accounted for like every other message. */
export function releasesSuite(backend: () => Backend): void {
  const releases = (shop: Shop) =>
    shop.knex('local_message').where('payload', 'like', `%"${shop.ref.activityId}"%`)
  const due = (shop: Shop) => releases(shop).where({ status: 0 }).update({ next_retry_time: 1 })
  const open = (shop: Shop) =>
    shop
      .knex('seckill_manual_task')
      .where({ kind: 'outbox-parked', resolved_at: null })
      .pluck('ref')
  const available = async (shop: Shop) => (await shop.sale.stock.numbers(shop.ref)).available

  /** Buys, and closes the orders in the database; Redis has not been told. */
  async function closed(shop: Shop, count: number, reason = 'host'): Promise<Reservation[]> {
    const held: Reservation[] = []
    for (let i = 0; i < count; i++) {
      const userId = `${reason.slice(0, 4)}${i}`
      await shop.buy(userId)
      const record = await shop.sale.stock.reservation(shop.ref, userId)
      if (typeof record === 'string') throw new Error(record)
      held.push(record)
    }
    await shop.orders.closeUnbooked(held, reason)
    return held
  }

  /** Ten rounds of a relay whose Redis does not answer. */
  async function tenTries(shop: Shop): Promise<void> {
    shop.redis.failure = DOWN
    for (let i = 0; i < 12; i++) {
      await due(shop)
      await shop.sale.relay().run()
    }
    shop.redis.failure = null
  }

  describe('releases in the outbox', () => {
    test('D4 D3: Redis away: the pause is that of the tries, and one success ends it', async () => {
      const shop = await openShop(backend())
      await closed(shop, 2)
      await due(shop)
      shop.redis.failure = DOWN
      await shop.sale.relay({ leaseMs: 3_600_000 }).run()
      for (const row of await releases(shop)) {
        expect(row).toMatchObject({ status: 0, retry_count: 1 })
        expect(Number(row.next_retry_time)).toBeGreaterThan(1)
        expect(Number(row.next_retry_time)).toBeLessThan(Date.now() + 1_800_000) // the pause, not the lease
      }
      shop.redis.failure = null
      await due(shop)
      await shop.sale.relay().run()
      expect(await available(shop)).toBe(10)
      expect((await releases(shop)).map((r) => Number(r.status))).toEqual([1, 1])
    })

    test('C22 (g): ten tries used up: parked, alerted, with a manual task; the reconciler returns the units all the same', async () => {
      const shop = await openShop(backend())
      const [order] = await closed(shop, 1)
      await tenTries(shop)
      expect(shop.alerts.filter((code) => code === 'release-parked')).toHaveLength(1)
      expect(await releases(shop)).toMatchObject([{ status: 2, retry_count: 10 }])
      expect(await open(shop)).toContain(`release:${order?.orderNo}`)
      expect(await available(shop)).toBe(9)

      const { orders, activities, sale } = shop
      const reconciler = new TriangleReconciler({
        ...{ stock: sale.stock, orders, activities, graceMs: 0 },
      })
      const { findings } = await reconciler.inspect(shop.ref.activityId)
      const owed = findings.filter((finding) => finding.kind === 'release-owed')
      expect(owed).toMatchObject([{ orderNo: order?.orderNo }])
      expect(await reconciler.repair(owed)).toMatchObject([{ status: 'repaired' }])
      expect(await available(shop)).toBe(10)
      expect(await releases(shop)).toMatchObject([{ status: 1 }])
      expect(await open(shop)).not.toContain(`release:${order?.orderNo}`)
    })

    test('D4: parked releases put back are returned by the next relay', async () => {
      const shop = await openShop(backend())
      await closed(shop, 2)
      await tenTries(shop)
      const outbox = new KnexOutbox({ knex: shop.knex })
      const parked = (await outbox.parked({ limit: 400 })).filter((m) =>
        m.payload.includes(shop.ref.activityId),
      )
      expect(parked).toHaveLength(2)
      await outbox.requeue(
        parked.map((m) => m.bizNo),
        AUDIT,
      )
      await shop.sale.relay().run()
      expect(await available(shop)).toBe(10)
      expect((await releases(shop)).map((r) => Number(r.status))).toEqual([1, 1])
    })

    test('C22 (d): a release that Redis never takes does not keep the others back', async () => {
      const shop = await openShop(backend())
      await closed(shop, 3)
      const [poison] = await closed(shop, 1)
      await closed(shop, 3, 'later')
      await due(shop)
      await shop
        .knex('local_message')
        .where({ biz_no: `release:${poison?.orderNo}` })
        .update({ payload: JSON.stringify({ reservation: poison, reason: 'x'.repeat(300) }) })
      await shop.sale.relay().run()
      expect(await available(shop)).toBe(9)
      const left = await releases(shop).where({ status: 0 })
      expect(left.map((r) => r.biz_no)).toEqual([`release:${poison?.orderNo}`])
    })

    test('C22 (d): nor does one that cannot be read: it is parked', async () => {
      const shop = await openShop(backend())
      const [broken, , half] = await closed(shop, 3)
      const write = (order: Reservation | undefined, payload: string) =>
        shop
          .knex('local_message')
          .where({ biz_no: `release:${order?.orderNo}` })
          .update({ payload })
      await due(shop)
      await write(broken, '{"reservation":')
      await write(half, '{"reservation":{"orderNo":7},"reason":"host"}')
      await shop.sale.relay().run()
      expect(await available(shop)).toBe(8)
      expect(await open(shop)).toEqual(
        expect.arrayContaining([broken, half].map((order) => `release:${order?.orderNo}`)),
      )
    })

    test('C22 (b): a late retry of releases that another has taken changes nothing', async () => {
      const shop = await openShop(backend())
      const [order] = await closed(shop, 1)
      const take = () => shop.orders.takeReleases({ limit: 10, leaseMs: 60_000 })
      await due(shop)
      const late = await take()
      await due(shop)
      const mine = await take()
      expect(mine).toMatchObject([{ reservation: { orderNo: order?.orderNo, skuId: SKU } }])
      const before = await releases(shop)
      expect(await shop.orders.retryReleases(late, 'no')).toEqual([])
      expect(await releases(shop)).toEqual(before)
      expect(await shop.orders.retryReleases(mine, 'no')).toEqual([])
      expect(await releases(shop)).not.toEqual(before)
      await shop.orders.released(mine.map((r) => r.reservation.orderNo))
    })

    test('C02: releases out of order are refused, before any I/O', async () => {
      const { orders } = await openShop(backend())
      const good = { id: 'release:1', lease: 'l', reason: 'x', reservation: { orderNo: '1' } }
      for (const list of [
        ...[null, 'x', [null], [7], Array(1), Array(10_001).fill(good)],
        ...[{ id: '' }, { id: 7 }, { lease: null }, { reservation: null }, { reservation: {} }].map(
          (change) => [{ ...good, ...change }],
        ),
      ])
        await expect(orders.retryReleases(list as never, 'no')).rejects.toMatchObject({
          code: 'BAD_INPUT',
        })
      await expect(orders.retryReleases([], 7 as never)).rejects.toThrow('why')
    })
  })
}
