import { type Finding, newOrderNo } from 'flash-sale-kit'
import { KnexFindingLog, KnexOrderBook, KnexPaymentBook } from 'flash-sale-kit/knex'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { until } from '../harness/net.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { spawnNode } from '../harness/spawn-node.js'
import { openShop, type Shop } from '../suites/pipeline/shop.js'
import { clicks, idsOf, MIXED, plantAll, planted } from '../suites/reconcile/mixed.js'
import {
  confirmed,
  deducted,
  fresh,
  order,
  pay,
  paymentsOf,
  reconcilerOf,
  release,
  reservation,
  type Told,
} from '../suites/reconcile/world.js'

const KINDS = ['mariadb', 'postgres'] as const

describe.each(KINDS)('the reconciler on Redis and %s', (kind) => {
  let redis: FreshRedis
  let database: FreshDatabase
  beforeAll(async () => {
    ;[redis, database] = await Promise.all([freshRedis(), freshDatabase(kind)])
    await KnexOrderBook.migrate(database.knex)
  })
  afterAll(async () => {
    await redis?.destroy()
    await database?.destroy()
  })
  const shopOf = (units: number) =>
    openShop({ redis: redis.redis, knex: database.knex }, { units, activity: { maxPerOrder: 2 } })

  test('R2 R3 R5: all classes at once, while 50 reservations a second go on', async () => {
    const shop = await shopOf(10_000)
    await plantAll(shop)
    const stopClicks = clicks(shop, 50)
    const payments = paymentsOf(shop)
    const reconciler = reconcilerOf(shop, { payments })
    const { activityId } = shop.ref
    const report = await reconciler.inspect(activityId)
    expect(report.counts).toEqual(planted())
    const repaired = await reconciler.repair(report.findings)
    const manual = report.findings.filter((f) => f.repair === 'manual')
    expect(
      repaired
        .filter((r) => r.status === 'repaired')
        .map((r) => r.id)
        .sort(),
    ).toEqual(
      report.findings
        .filter((f) => f.repair !== 'manual')
        .map((f) => f.id)
        .sort(),
    )
    const after = await reconciler.inspect(activityId)
    expect(idsOf(after)).toEqual(manual.map((f) => f.id).sort())
    const again = await reconciler.repair(report.findings)
    expect(again.filter((r) => r.status === 'repaired').map((r) => r.id)).toEqual([])

    const onTheirWay = await stopClicks()
    expect(onTheirWay.length).toBeGreaterThan(5)
    const held = async (state: string) => {
      for (const user of onTheirWay)
        expect(await shop.sale.stock.reservation(shop.ref, user)).toMatchObject({ state })
    }
    await held('held')
    await drain(shop)
    await held('confirmed')
    // Messages of planted numbers were delivered too, and healed some; nothing else is there.
    const about = (f: Finding) => f.orderNo ?? f.subject ?? f.userId
    const known = new Set(after.findings.map(about))
    const last = await reconciler.inspect(activityId)
    expect(last.findings.filter((f) => !known.has(about(f)))).toEqual([])
  })

  test('C20: six classes with their counts; in flight is left alone, losses are repaired, one goes to a person', async () => {
    const shop = await shopOf(100)
    const { activityId } = shop.ref
    for (let i = 0; i < 40; i++) await confirmed(shop, `good${i}`)
    const queued = Array.from({ length: 15 }, (_, i) => `queued${i}`)
    for (const user of queued) await fresh(shop, user)
    for (let i = 0; i < 5; i++) await deducted(shop, `crashed${i}`)
    for (let i = 0; i < 3; i++) await release(shop, await deducted(shop, `released${i}`))
    for (let i = 0; i < 2; i++) await shop.orders.confirm([reservation(shop, `lost${i}`)])
    const returned = await confirmed(shop, 'returned')
    await pay(shop, returned)
    await release(shop, returned)

    const stopClicks = clicks(shop, 50)
    const told: Told[] = []
    const reconciler = reconcilerOf(shop, { told })
    const report = await reconciler.inspect(activityId)
    const six = { 'no-order': 5, 'no-closing': 3, 'no-deduction': 2, 'paid-but-returned': 1 }
    expect(report.counts).toEqual(six)
    expect(report.triangles[0]).toMatchObject({ confirmed: 42, paid: 1 })
    expect(report.triangles[0]?.onTheWay).toBeGreaterThanOrEqual(15)
    expect(report.difference).toBe(11)

    const statuses = (await reconciler.repair(report.findings)).map((r) => r.status)
    expect(statuses.filter((s) => s === 'repaired')).toHaveLength(10)
    expect(statuses.filter((s) => s === 'manual')).toHaveLength(1)
    expect(told.map((t) => t.code)).toEqual(['difference', 'difference-manual'])
    for (const user of queued)
      expect(await shop.sale.stock.reservation(shop.ref, user)).toMatchObject({ state: 'held' })
    const clicked = await stopClicks()
    const between = await reconciler.inspect(activityId)
    expect(between.counts).toEqual({ 'paid-but-returned': 1 })
    expect(between.triangles[0]?.onTheWay).toBe(15 + clicked.length)

    await drain(shop)
    const [row] = await shop.orders.find([returned.orderNo])
    expect(row).toMatchObject({ status: 'paid' })
    // What the person does: Redis is made anew from the database.
    await shop.sale.stock.control(activityId, 'stopped')
    const rebuilt = await shop.sale.stock.rebuild(shop.activity, shop.orders, { tokenEpoch: 1 })
    expect(rebuilt.status).toBe('rebuilt')
    await shop.sale.stock.control(activityId, 'open')
    const last = await reconciler.inspect(activityId)
    expect(last).toMatchObject({ findings: [], difference: 0, alert: false })
  })

  test('C20: a replica that lags, with counts as strings, is noticed and believed in nothing', async () => {
    const shop = await shopOf(100)
    const { activityId } = shop.ref
    const old = await confirmed(shop, 'old')
    const late = new Set<string>()
    for (let i = 0; i < 4; i++) {
      const r = await fresh(shop, `young${i}`)
      await shop.orders.confirm([r])
      await shop.sale.stock.move([{ to: 'confirmed', reservation: r }])
      late.add(r.orderNo)
    }
    // Closed and returned a moment ago; the replica still shows it alive.
    await shop.orders.closeUnpaid([old.orderNo], 'unpaid')
    await release(shop, old)
    await shop.orders.released([old.orderNo])
    const asStrings = (row: object) => ({ ...row, quantity: '1' }) as never
    const stale = (row: { orderNo: string }) =>
      asStrings(row.orderNo === old.orderNo ? { ...row, status: 'confirmed', reason: null } : row)
    const replica = new Proxy(shop.orders, {
      get(target, name) {
        if (name === 'snapshot')
          return async function* (...args: Parameters<KnexOrderBook['snapshot']>) {
            for await (const row of target.snapshot(...args))
              if (!late.has(row.orderNo)) yield stale(row)
          }
        if (name === 'find')
          return async (numbers: readonly string[]) =>
            (await target.find(numbers)).filter((r) => !late.has(r.orderNo)).map(stale)
        if (name === 'numbers') {
          const { total } = shop.activity.skus[0] as never as { total: number }
          return async () => ({ ...shop.ref, total: total ?? '100', available: '99', live: '1' })
        }
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    const reconciler = reconcilerOf(shop, { orders: replica })
    const report = await reconciler.inspect(activityId)
    expect(report.counts).toEqual({ 'database-behind': 1 })
    expect(report.triangles[0]).toMatchObject({ confirmed: 1, physical: 100 })
    const before = await shop.sale.stock.numbers(shop.ref)
    await reconciler.repair(report.findings)
    expect(await shop.sale.stock.numbers(shop.ref)).toEqual(before)
    late.clear()
    expect((await reconcilerOf(shop).inspect(activityId)).findings).toEqual([])
  })

  const FAULTS = [
    ['closeUnbooked', 'before'],
    ['closeUnbooked', 'sent'],
    ['closeUnbooked', 'after'],
    ['closeUnpaid', 'after'],
    ['move', 'before'],
    ['move', 'sent'],
    ['move', 'after'],
    ['released', 'before'],
    ['topUp', 'sent'],
    ['topUp', 'after'],
    ['takeOwed', 'after'],
    ['delivered', 'before'],
    ['addManualTask', 'after'],
  ] as const
  test.each(kind === 'mariadb' ? FAULTS : FAULTS.slice(1, 3))(
    'R3: killed at %s %s and run again: the same end',
    async (call, when) => {
      const shop = await shopOf(1_000)
      const plants = MIXED.filter((p) => !p.money)
      for (const [i, p] of plants.entries()) await p.plant(shop, `p${i}`)
      const { activityId } = shop.ref
      const reconciler = reconcilerOf(shop)
      const manual = (await reconciler.inspect(activityId)).findings
        .filter((f) => f.repair === 'manual')
        .map((f) => f.id)
      const child = await spawnNode(new URL('./children/reconcile.ts', import.meta.url), {
        args: [String(redis.server.port), JSON.stringify(database.address), activityId, call, when],
      })
      await child.exited
      expect(child.output()).not.toContain('lived')
      // The batch that the dead had taken is his for a second.
      await until('nobody is at it any more', async () => {
        const report = await reconciler.inspect(activityId)
        const repaired = await reconciler.repair(report.findings)
        return repaired.every((r) => r.status !== 'later')
      })
      await settledReleases(shop)
      const last = await reconciler.inspect(activityId)
      expect(idsOf(last)).toEqual(manual.sort())
      await expectAsUndisturbed(shop)
    },
  )

  test('R3: two at once repair each difference once', async () => {
    const shop = await shopOf(1_000)
    await plantAll(shop)
    const payments = paymentsOf(shop)
    const [a, b] = [reconcilerOf(shop, { payments }), reconcilerOf(shop, { payments })]
    const { activityId } = shop.ref
    const [report] = await Promise.all([a.inspect(activityId), b.inspect(activityId)])
    await Promise.all([a.repair(report.findings), b.repair(report.findings)])
    await settledReleases(shop)
    const manual = report.findings.filter((f) => f.repair === 'manual').map((f) => f.id)
    expect(idsOf(await a.inspect(activityId))).toEqual(manual.sort())
    await expectAsUndisturbed(shop)
  })

  test('C04: a Redis that is emptied, or loses a key, in the middle of a run is no sale without deductions', async () => {
    for (const loss of ['flush', 'stock', 'done'] as const) {
      const shop = await shopOf(100)
      const { activityId } = shop.ref
      for (let i = 0; i < 40; i++) await confirmed(shop, `u${i}`)
      for (let i = 0; i < 10; i++) await shop.orders.confirm([await deducted(shop, `held${i}`)])
      const told: Told[] = []
      let lost = false
      const reconciler = reconcilerOf(shop, {
        told,
        onProgress: async ({ reading }) => {
          if (reading !== 'orders' || lost) return
          lost = true
          const keys = await redis.redis.keys(`*{${activityId}}*`)
          await redis.redis.del(
            ...keys.filter((key) => loss === 'flush' || key.includes(`:${loss}:`)),
          )
        },
      })
      await expect(
        reconciler.inspect(activityId).then((report) => reconciler.repair(report.findings)),
      ).rejects.toMatchObject({ code: 'NOT_WARMED' })
      await expect(reconciler.inspect(activityId)).rejects.toMatchObject({ code: 'NOT_WARMED' })
      expect(told).toEqual([])
      const rows = await shop.orders.find([(await confirmedRow(shop, 'u0')).orderNo])
      expect(rows).toMatchObject([{ status: 'confirmed' }])
    }
  })

  test('R2: more differences than are listed are counted, and repaired run by run', async () => {
    const shop = await shopOf(20_000)
    const { activityId } = shop.ref
    const many = Array.from({ length: 10_400 }, (_, i) => reservation(shop, `u${i}`))
    for (let i = 0; i < many.length; i += 2_000) await shop.orders.confirm(many.slice(i, i + 2_000))
    const read: number[] = []
    const reconciler = reconcilerOf(shop, { onProgress: ({ rows }) => read.push(rows) })
    const report = await reconciler.inspect(activityId)
    expect(report).toMatchObject({ truncated: true, counts: { 'no-deduction': 10_400 } })
    expect(report.findings).toHaveLength(10_000)
    expect(report.difference).toBe(10_400)
    expect(Math.max(...read)).toBe(10_400)
    await reconciler.repair(report.findings)
    const second = await reconciler.inspect(activityId)
    expect(second).toMatchObject({ truncated: false, counts: { 'no-deduction': 400 } })
    await reconciler.repair(second.findings)
    expect((await reconciler.inspect(activityId)).findings).toEqual([])
    expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({ frozen: 10_400, over: 0 })
  })

  test('an aborted signal ends a run with STOPPED, and a repair before its next write', async () => {
    const shop = await shopOf(100)
    await deducted(shop, 'u1')
    const { activityId } = shop.ref
    const reconciler = reconcilerOf(shop)
    const gone = AbortSignal.abort(new Error('enough'))
    await expect(reconciler.inspect(activityId, gone)).rejects.toMatchObject({ code: 'STOPPED' })
    const { findings } = await reconciler.inspect(activityId)
    await expect(reconciler.repair(findings, { signal: gone })).rejects.toMatchObject({
      code: 'STOPPED',
    })
    const mayWrite = async () => false
    await expect(reconciler.repair(findings, { mayWrite })).rejects.toMatchObject({
      code: 'STOPPED',
    })
    expect(await shop.sale.stock.reservation(shop.ref, 'u1')).toMatchObject({ state: 'held' })
    expect(await shop.orders.findByBuyer(shop.ref, 'u1')).toBeNull()
  })

  test('R2 P1: money in the database is compared with the orders', async () => {
    const shop = await shopOf(100)
    const payments = new KnexPaymentBook({ knex: database.knex })
    const reconciler = reconcilerOf(shop, { payments })
    const { activityId } = shop.ref
    const r = await confirmed(shop, 'u1')
    const { orderNo, userId } = r
    const paymentId = newOrderNo()
    await payments.open({ orderNo, userId, channel: 'wx', paymentId, leaseMs: 1_000 })
    const money = { tradeNo: newOrderNo(), amountMinor: 100, currency: 'CNY' }
    const captured = await payments.capture(
      { channel: 'wx', paymentId, userId, order: null, confirmed: true, ...money },
      { latePayment: 'refund', newOrderNo: newOrderNo(), newPaymentId: newOrderNo() },
    )
    expect(captured.status).toBe('applied')
    await shop.sale.stock.move([{ to: 'paid', reservation: r }])
    expect((await reconciler.inspect(activityId)).findings).toEqual([])

    await order(shop, r).update({ status: 'CONFIRMED' })
    const byHand = await confirmed(shop, 'u2')
    await pay(shop, byHand)
    await shop.sale.stock.move([{ to: 'paid', reservation: byHand }])
    expect((await reconciler.inspect(activityId)).counts).toEqual({
      'paid-differs': 1,
      'payment-without-order': 1,
      'paid-without-payment': 1,
    })
  })

  test('R4: the log knows when each was first and last seen, and what became of it', async () => {
    const shop = await shopOf(100)
    const { activityId } = shop.ref
    const log = new KnexFindingLog({ knex: database.knex })
    const reconciler = reconcilerOf(shop, { log })
    await deducted(shop, 'u1')
    const lost = await deducted(shop, 'u2')
    const missing = await deducted(shop, 'u3')
    await shop.sale.stock.move([{ to: 'confirmed', reservation: missing }])
    const rowsOf = async () =>
      database
        .knex('seckill_finding')
        .where({ activity_id: activityId })
        .orderBy('finding_id')
        .select(
          'kind',
          'order_no',
          'outcome',
          'run',
          'first_seen_at',
          'last_seen_at',
          'repaired_at',
        )
    const first = await reconciler.inspect(activityId)
    expect(await rowsOf()).toHaveLength(3)
    await shop.orders.confirm([lost])
    await shop.sale.stock.move([{ to: 'confirmed', reservation: lost }])
    const second = await reconciler.inspect(activityId)
    await reconciler.repair(second.findings)
    const rows = await rowsOf()
    const outcomes = Object.fromEntries(rows.map((r) => [r.order_no, r.outcome]))
    expect(outcomes[lost.orderNo]).toBe('gone')
    expect(outcomes[missing.orderNo]).toBe('manual')
    expect(Object.values(outcomes).sort()).toEqual(['gone', 'manual', 'repaired'])
    for (const r of rows) {
      expect(Number(r.last_seen_at)).toBeGreaterThanOrEqual(Number(r.first_seen_at))
      expect(r.repaired_at === null).toBe(r.outcome === 'manual')
      expect(r.run).toBe(r.outcome === 'gone' ? first.run : second.run)
    }
    const bad = { ...second.findings[0], units: 0.5 } as never
    const run = { activityId, run: 'x', complete: true }
    await expect(log.seen(run, [bad])).rejects.toMatchObject({ code: 'BAD_INPUT' })
    await expect(
      log.settled(activityId, [{ id: 'x', status: 'lost' as never }]),
    ).rejects.toMatchObject({ code: 'BAD_INPUT' })
    expect(await rowsOf()).toEqual(rows)
  })
})

/** Confirms what is queued, until nothing waits. */
async function drain(shop: Shop): Promise<void> {
  shop.sale.worker({ ordersPerSecond: 5_000 })
  await shop.sale.start()
  await until('nothing waits', async () => (await shop.sale.stock.numbers(shop.ref)).waiting === 0)
  await shop.sale.stop()
}

/** A release row is nobody's loss for half a minute; here it is, at once. */
async function settledReleases(shop: Shop): Promise<void> {
  const owed = await shop.orders.owedReleases(shop.ref, { olderThanMs: 0, limit: 1_000 })
  const rows = await shop.orders.find(owed)
  const records = await shop.sale.stock.reservations(shop.ref, rows)
  for (const [i, row] of rows.entries())
    if (records[i] && (records[i] as { state: string }).state === 'released')
      await shop.orders.released([row.orderNo])
}

/** The numbers that all repairs lead to, however often they were begun. */
async function expectAsUndisturbed(shop: Shop): Promise<void> {
  const numbers = await shop.sale.stock.numbers(shop.ref)
  const sums = { held: 0, confirmed: 0, paid: 0, released: 0 }
  for (let cursor: string | null = '0'; cursor !== null; ) {
    const page = await shop.sale.stock.scan(shop.ref, cursor)
    for (const r of page.rows) sums[r.state] += r.quantity
    cursor = page.next
  }
  expect(numbers).toMatchObject({
    pending: sums.held,
    frozen: sums.held + sums.confirmed,
    sold: sums.paid,
    over: 0,
  })
}

async function confirmedRow(shop: Shop, userId: string) {
  const row = await shop.orders.findByBuyer(shop.ref, userId)
  if (!row) throw new Error(`${userId} has no order`)
  return row
}
