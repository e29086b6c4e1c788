import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Lease,
  ReconcileRunner,
  type ReconcileRunnerOptions,
  type Report,
} from 'flash-sale-kit'
import { KnexLeases, KnexOrderBook } from 'flash-sale-kit/knex'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { until } from '../harness/net.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { openShop, type Shop } from '../suites/pipeline/shop.js'
import { deducted, reconcilerOf, type Told } from '../suites/reconcile/world.js'

describe.each(['mariadb', 'postgres'] as const)('ReconcileRunner on Redis and %s', (kind) => {
  let redis: FreshRedis
  let database: FreshDatabase
  let leases: KnexLeases
  beforeAll(async () => {
    ;[redis, database] = await Promise.all([freshRedis(), freshDatabase(kind)])
    await KnexOrderBook.migrate(database.knex)
    leases = new KnexLeases({ knex: database.knex })
  })
  afterAll(async () => {
    await redis?.destroy()
    await database?.destroy()
  })

  const shopOf = (o: Parameters<typeof openShop>[1] = {}) =>
    openShop({ redis: redis.redis, knex: database.knex }, o)
  /** Only this shop is live, whatever other tests have left. */
  const only = (shop: Shop) => ({
    load: shop.activities.load.bind(shop.activities),
    live: async () => [shop.ref.activityId],
  })
  const runnerOf = (shop: Shop, o: Partial<ReconcileRunnerOptions> & { told?: Told[] } = {}) => {
    const { told, ...more } = o
    return new ReconcileRunner({
      reconciler: reconcilerOf(shop),
      activities: only(shop),
      leases,
      ...(told ? { events: { onAlert: (code, detail) => void told.push({ code, detail }) } } : {}),
      ...more,
    })
  }

  test('R1: finds and repairs again and again until it is stopped, also what comes later', async () => {
    const shop = await shopOf()
    const reports: Report[] = []
    const runner = runnerOf(shop, { everyMs: 20, onReport: (report) => reports.push(report) })
    await runner.start()
    const closed = (user: string) => async () =>
      (await shop.orders.findByBuyer(shop.ref, user))?.reason === 'lost'
    await deducted(shop, 'u1')
    await until('the first is repaired', closed('u1'))
    await deducted(shop, 'u2')
    await until('the second is repaired', closed('u2'))
    await runner.stop()
    await runner.stop()
    const runs = reports.length
    await sleep(60)
    expect(reports.length).toBe(runs)
    await expect(runner.start()).rejects.toMatchObject({ code: 'STOPPED' })
    // Its lease is free at once.
    expect(await leases.take(`reconcile ${shop.ref.activityId}`, 1_000)).not.toBeNull()
  })

  test('R1: one at a time across processes', async () => {
    const shop = await shopOf()
    const { activityId } = shop.ref
    const lease = await leases.take(`reconcile ${activityId}`, 60_000)
    await deducted(shop, 'u1')
    const runner = runnerOf(shop)
    expect(await runner.runOne(activityId)).toBe('elsewhere')
    expect(await shop.orders.findByBuyer(shop.ref, 'u1')).toBeNull()
    await lease?.release()
    expect(await runner.runOne(activityId)).toMatchObject({ counts: { 'no-order': 1 } })
    expect(await shop.orders.findByBuyer(shop.ref, 'u1')).toMatchObject({ reason: 'lost' })
  })

  test('R1: one that lost its lease stops before its next write', async () => {
    const shop = await shopOf()
    const { activityId } = shop.ref
    await deducted(shop, 'u1')
    const told: Told[] = []
    let asked = 0
    // Another has it by the time it is to be renewed.
    const lost: Lease = {
      fence: 1,
      renew: async () => {
        asked++
        return false
      },
      release: async () => {},
    }
    const reconciler = reconcilerOf(shop)
    const now = performance.now.bind(performance)
    const clock = vi.spyOn(performance, 'now')
    const runner = runnerOf(shop, {
      told,
      leases: { take: async () => lost },
      reconciler: {
        inspect: async (id: string) => {
          const report = await reconciler.inspect(id)
          // A process that was frozen for a minute: no timer of it ran meanwhile, the next thing is the repair.
          clock.mockImplementation(() => now() + 60_000)
          return report
        },
        repair: reconciler.repair.bind(reconciler),
      } as never,
    })
    await runner.run()
    clock.mockRestore()
    const detail = { activityId, error: { code: 'STOPPED' } }
    expect(told).toMatchObject([{ code: 'reconcile-failed', detail }])
    expect(asked).toBe(1)
    expect(await shop.orders.findByBuyer(shop.ref, 'u1')).toBeNull()
    expect(await shop.sale.stock.reservation(shop.ref, 'u1')).toMatchObject({ state: 'held' })
  })

  test('R1: a run that takes longer than its lease keeps it', async () => {
    const shop = await shopOf()
    const { activityId } = shop.ref
    await deducted(shop, 'u1')
    let renewed = 0
    const kept: Lease = {
      fence: 1,
      renew: async () => {
        renewed++
        return true
      },
      release: async () => {},
    }
    const reconciler = reconcilerOf(shop)
    const slow = {
      inspect: async (id: string, signal?: AbortSignal) => {
        await until('it was renewed often', () => renewed > 3)
        return reconciler.inspect(id, signal)
      },
      repair: reconciler.repair.bind(reconciler),
    }
    const leasesOf = { take: async () => kept }
    const runner = runnerOf(shop, { leaseMs: 100, leases: leasesOf, reconciler: slow as never })
    expect(await runner.runOne(activityId)).toMatchObject({ counts: { 'no-order': 1 } })
    const before = renewed
    await sleep(150)
    expect(renewed, 'no longer than it needs it').toBe(before)
  })

  test('R1: strong mode and a sale that is not warmed up yet are not due; keys that are gone are an alert', async () => {
    const strong = await shopOf({ activity: { mode: 'strong' }, warm: false })
    const told: Told[] = []
    expect(await runnerOf(strong).runOne(strong.ref.activityId)).toBe('not-due')
    const opensAt = Date.now() + 600_000
    const early = await shopOf({ activity: { opensAt }, warm: false })
    expect(await runnerOf(early).runOne(early.ref.activityId)).toBe('not-due')
    const gone = await shopOf({ warm: false })
    await runnerOf(gone, { told }).run()
    expect(told).toMatchObject([
      { code: 'reconcile-failed', detail: { activityId: gone.ref.activityId } },
    ])
  })

  test('R1: reports only, if told so', async () => {
    const shop = await shopOf()
    await deducted(shop, 'u1')
    const seen: unknown[] = []
    const runner = runnerOf(shop, { repair: false, onReport: (_, repaired) => seen.push(repaired) })
    await runner.run()
    expect(seen).toEqual([[]])
    expect(await shop.orders.findByBuyer(shop.ref, 'u1')).toBeNull()
  })

  test('bad options are typed errors', async () => {
    const shop = await shopOf()
    for (const [name, value] of [
      ['everyMs', 0],
      ['everyMs', Number.NaN],
      ['leaseMs', 5n],
      ['repair', 'yes'],
      ['leases', null],
      ['reconciler', undefined],
      ['onReport', 1],
    ] as const)
      expect(() => runnerOf(shop, { [name]: value } as never)).toThrow(name)
    await expect(runnerOf(shop).runOne('{')).rejects.toMatchObject({ code: 'BAD_INPUT' })
  })
})

test('C20: orders are not read on a server that takes no writes', async () => {
  const { startMariadb } = await import('../harness/services/mariadb.js')
  const server = await startMariadb()
  const db = await freshDatabase('mariadb', { server })
  try {
    await KnexOrderBook.migrate(db.knex)
    const book = new KnexOrderBook({ knex: db.knex })
    const rows = async () => {
      for await (const _ of book.snapshot({ activityId: 'a1', skuId: 's1' }));
    }
    await rows()
    await db.knex.raw('SET GLOBAL read_only = 1')
    await expect(rows()).rejects.toMatchObject({ code: 'DB_UNAVAILABLE' })
    await db.knex.raw('SET GLOBAL read_only = 0')
    await rows()
  } finally {
    await db.destroy()
    await server.stop()
  }
})
