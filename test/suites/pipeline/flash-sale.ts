import { setTimeout as sleep } from 'node:timers/promises'
import {
  FlashSale,
  FlashSaleError,
  newOrderNo,
  type Queue,
  TriangleReconciler,
} from 'flash-sale-kit'
import { KnexOrderBook, type OrderHooks } from 'flash-sale-kit/knex'
import { describe, expect, test, vi } from 'vitest'
import { until } from '../../harness/net.js'
import { AUDIT, type Backend, openShop, type Shop } from './shop.js'

const DOWN = new Error('Connection is closed.')

/** Everything that was begun has been decided, and Redis and the database agree. */
async function expectWhole({ sale, orders, ref, activity }: Shop): Promise<void> {
  await until(
    'everything is decided',
    async () => (await sale.stock.numbers(ref)).waiting === 0,
    10_000,
  )
  const n = await sale.stock.numbers(ref)
  const db = await orders.numbers(ref)
  expect(n.available + n.frozen + n.sold).toBe(n.total)
  expect(n).toMatchObject({ pending: 0, over: 0 })
  expect(db?.live).toBe((activity.skus[0]?.units ?? 0) - n.available)
  expect(db?.available).toBe(n.available)
}

async function running(shop: Shop, sale: FlashSale = shop.sale) {
  sale.worker({ ordersPerSecond: 10_000 })
  sale.relay({ everyMs: 20, leaseMs: 200 })
  await sale.start()
}

export function flashSaleSuite(backend: () => Backend): void {
  describe('the main job', () => {
    test('V2: sells each unit once, tells the rest, and says confirmed only when the database has', async () => {
      const shop = await openShop(backend(), { units: 5 })
      const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => shop.buy(`u${i}`)))
      const winners = answers.flatMap((a, i) => (a.status === 'queued' ? [`u${i}`] : []))
      expect(winners).toHaveLength(5)
      expect(answers.filter((a) => a.status === 'sold-out')).toHaveLength(15)
      expect(await shop.result(winners[0] as string)).toMatchObject({ status: 'queued' })
      await running(shop)
      await expectWhole(shop)
      for (const user of winners)
        expect(await shop.result(user)).toMatchObject({ status: 'confirmed' })
      expect(await shop.result('nobody')).toEqual({ status: 'none' })
      expect(shop.refused.filter((r) => r === 'stock:sold-out')).toHaveLength(15)
      await shop.sale.stop()
      await expect(shop.buy('late')).rejects.toMatchObject({ code: 'STOPPED' })
    })

    test('D3: a veto in the host’s longest and oddest words gives the unit back', async () => {
      const words = 'no | way\n'.repeat(30).slice(0, 200)
      const { knex } = backend()
      const onConfirm: OrderHooks['onConfirm'] = async (_, orders) =>
        orders.map(({ orderNo }) => ({ orderNo, veto: words }))
      const orders = new KnexOrderBook({ knex, hooks: { onConfirm } })
      const shop = await openShop(backend(), { units: 5, sale: { orders } })
      await running(shop)
      await shop.buy('u1')
      await expectWhole(shop)
      expect((await shop.sale.stock.numbers(shop.ref)).available).toBe(5)
      expect(await shop.result('u1')).toMatchObject({
        status: 'closed',
        reason: `veto:${words}`.slice(0, 100).replace(/[|\n]/g, ' '),
      })
      await shop.sale.stop()
    })

    test('Q4: frozen workers confirm nothing, in any process, until they are let go', async () => {
      const shop = await openShop(backend(), { units: 5 })
      await shop.sale.consumers('frozen', AUDIT)
      const other = shop.restarted()
      await running(shop)
      await running(shop, other)
      try {
        await shop.buy('u1')
        await sleep(300)
        expect(await shop.result('u1')).toMatchObject({ status: 'queued' })
        await other.consumers('running', AUDIT)
        await expectWhole(shop)
        expect(await shop.result('u1')).toMatchObject({ status: 'confirmed' })
        await other.consumers('frozen', AUDIT)
        await sleep(300) // several times refreshMs
        await shop.buy('u2')
        await sleep(300)
        expect(await shop.result('u2')).toMatchObject({ status: 'queued' })
      } finally {
        await shop.sale.consumers('running', AUDIT)
        await expectWhole(shop)
        await Promise.all([shop.sale.stop(), other.stop()])
      }
    })

    test('Q4: a worker paused by hand stays so when all are let go', async () => {
      const shop = await openShop(backend(), { units: 5 })
      const worker = shop.sale.worker({ ordersPerSecond: 10_000 })
      await shop.sale.start()
      await worker.pause()
      await shop.sale.consumers('running', AUDIT)
      await shop.buy('u1')
      await sleep(300)
      expect(await shop.result('u1')).toMatchObject({ status: 'queued' })
      worker.resume()
      await expectWhole(shop)
      await shop.sale.stop()
    })

    test('T2: a repeated click with the same token hears the first answer and takes no unit', async () => {
      const shop = await openShop(backend(), { activity: { tokens: 'required' } })
      const buyer = { userId: 'u1', ip: '::1', deviceId: 'd1' }
      const issued = await shop.sale.token(shop.ref.activityId, buyer)
      if (issued.status !== 'issued') throw new Error(issued.status)
      const first = await shop.sale.submit({ ...shop.ref, buyer, token: issued.token })
      const again = await shop.sale.submit({ ...shop.ref, buyer, token: issued.token })
      expect(first).toMatchObject({ status: 'queued', replayed: false })
      expect(again).toEqual({ ...first, replayed: true })
      expect((await shop.sale.stock.numbers(shop.ref)).available).toBe(9)
    })

    test('a buyer without a token who has an order is told its number', async () => {
      const shop = await openShop(backend())
      const first = await shop.buy('u1')
      const again = await shop.buy('u1')
      expect(again).toEqual({
        status: 'already-bought',
        orderNo: first.status === 'queued' && first.orderNo,
      })
    })

    test('the payload travels to the database, the price does not come from the request', async () => {
      const shop = await openShop(backend())
      await shop.buy('u1', { quantity: 2, payload: { address: '北京', priceMinor: 1 } })
      await running(shop)
      await expectWhole(shop)
      const row = await shop.orders.findByBuyer(shop.ref, 'u1')
      expect(row).toMatchObject({ quantity: 2, amountMinor: 200, currency: 'CNY' })
      expect(row?.payload).toEqual({ address: '北京', priceMinor: 1 })
      await shop.sale.stop()
    })
  })

  describe('refused early', () => {
    const now = Date.now()
    test.each([
      ['not-open', { opensAt: now + 3_600_000, endsAt: now + 7_200_000 }],
      ['ended', { opensAt: now - 7_200_000, endsAt: now - 3_600_000 }],
      ['stopped', {}],
    ] as const)('F1: %s is refused from memory, without Redis', async (status, activity) => {
      const shop = await openShop(backend(), { activity, open: status !== 'stopped' })
      await shop.buy('u0')
      shop.redis.calls = 0
      expect(await shop.buy('u1')).toMatchObject({ status })
      expect(shop.redis.calls).toBe(0)
      expect(shop.refused).toContain(`gate:${status}`)
    })

    test('an unknown activity and an unknown SKU are not found', async () => {
      const shop = await openShop(backend())
      expect(
        await shop.sale.submit({ activityId: 'nope', skuId: 's1', buyer: { userId: 'u', ip: '' } }),
      ).toEqual({
        status: 'not-found',
      })
      expect(await shop.buy('u', { skuId: 'nope' })).toEqual({ status: 'not-found' })
    })

    test('more than the limit is refused from memory', async () => {
      const shop = await openShop(backend())
      expect(await shop.buy('u', { quantity: 3 })).toEqual({ status: 'over-limit', maxPerOrder: 2 })
    })

    test('F2: the risk hook is asked before a token is issued and before stock is touched', async () => {
      const asked: string[] = []
      const shop = await openShop(backend(), {
        activity: { tokens: 'required' },
        sale: {
          risk: async ({ step, buyer }) => {
            asked.push(step)
            return buyer.userId === 'bot' ? { deny: 'blocklist' } : 'pass'
          },
        },
      })
      shop.redis.calls = 0
      const denied = { status: 'denied', reason: 'blocklist' }
      expect(await shop.sale.token(shop.ref.activityId, { userId: 'bot', ip: '' })).toEqual(denied)
      expect(await shop.buy('bot', { token: 'x' })).toEqual(denied)
      expect(shop.redis.calls).toBe(0)
      expect(asked).toEqual(['token', 'submit'])
    })

    test.each([
      ['token-missing', undefined],
      ['token-invalid', 'forged'],
      ['token-invalid', 'x'.repeat(10_000)],
    ])('F4: no unit leaves with %s', async (status, token) => {
      const shop = await openShop(backend(), { activity: { tokens: 'required' } })
      expect(await shop.buy('u1', { token })).toEqual({ status })
      expect((await shop.sale.stock.numbers(shop.ref)).available).toBe(10)
    })

    test('C07: a token of another buyer or a revoked one is told apart, and the right one still works', async () => {
      const shop = await openShop(backend(), { activity: { tokens: 'required' } })
      const { activityId } = shop.ref
      const mine = await shop.sale.token(activityId, { userId: 'u1', ip: '' })
      if (mine.status !== 'issued') throw new Error(mine.status)
      expect(await shop.buy('u2', { token: mine.token })).toEqual({ status: 'token-not-yours' })
      await shop.sale.revokeTokens(activityId, AUDIT)
      expect(await shop.buy('u1', { token: mine.token })).toEqual({ status: 'token-revoked' })
      const fresh = await shop.sale.token(activityId, { userId: 'u1', ip: '' })
      if (fresh.status !== 'issued') throw new Error(fresh.status)
      expect(await shop.buy('u1', { token: fresh.token })).toMatchObject({ status: 'queued' })
    })

    test('a token revoked in Redis only is refused by the script, whatever this process believes', async () => {
      const shop = await openShop(backend(), { activity: { tokens: 'required' } })
      const mine = await shop.sale.token(shop.ref.activityId, { userId: 'u1', ip: '' })
      if (mine.status !== 'issued') throw new Error(mine.status)
      await shop.sale.stock.revokeTokens(shop.ref.activityId, 9)
      expect(await shop.buy('u1', { token: mine.token })).toEqual({ status: 'token-revoked' })
    })
  })

  describe('when the queue fails', () => {
    const failing = (outcome: 'rejected' | 'unknown', memory: Queue): Queue => ({
      start: async () => {},
      stop: async () => {},
      send: async () => outcome,
      consume: (handler, o) => memory.consume(handler, o),
      lag: async () => 'unknown',
      [Symbol.asyncDispose]: async () => {},
    })

    test('Q2: a rejected send closes the number in the database, returns the unit and says try again', async () => {
      const shop = await openShop(backend(), {})
      const sale = shop.restarted({ queue: failing('rejected', shop.queue) })
      expect(await sale.submit({ ...shop.ref, buyer: { userId: 'u1', ip: '' } })).toEqual({
        status: 'try-again',
      })
      expect(await shop.orders.findByBuyer(shop.ref, 'u1')).toMatchObject({
        status: 'closed',
        reason: 'send-rejected',
      })
      expect((await sale.stock.numbers(shop.ref)).available).toBe(10)
      expect(await shop.buy('u1')).toMatchObject({ status: 'queued' })
    })

    test('a rejected send with the database away keeps the unit, and the buyer stays queued', async () => {
      const shop = await openShop(backend(), {})
      const orders = new Proxy(shop.orders, {
        get: (target, name) =>
          name === 'closeUnbooked'
            ? async () => Promise.reject(new FlashSaleError('DB_UNAVAILABLE', 'down'))
            : Reflect.get(target, name),
      })
      const sale = shop.restarted({ queue: failing('rejected', shop.queue), orders })
      const answer = await sale.submit({ ...shop.ref, buyer: { userId: 'u1', ip: '' } })
      expect(answer).toMatchObject({ status: 'queued' })
      expect((await sale.stock.numbers(shop.ref)).owed).toBe(1)
    })

    test('what was never sent is sent by the relay', async () => {
      const shop = await openShop(backend(), { sale: { stock: { deliverTimeoutMs: 1 } } })
      const sale = shop.restarted({ queue: failing('unknown', shop.queue) })
      await sale.submit({ ...shop.ref, buyer: { userId: 'u1', ip: '' } })
      await running(shop)
      await expectWhole(shop)
      expect(await shop.result('u1')).toMatchObject({ status: 'confirmed' })
      await shop.sale.stop()
    })

    test('a number that nobody confirms in time is closed as lost, its unit returned, and the buyer may buy again', async () => {
      const shop = await openShop(backend(), {
        sale: { stock: { closeAfterMs: 1_000, deliverTimeoutMs: 1 } },
      })
      expect(await shop.buy('u1')).toMatchObject({ status: 'queued' })
      const relay = shop.restarted({ queue: failing('unknown', shop.queue) }).relay()
      await until('the number is closed', async () => {
        await relay.run()
        return (await shop.result('u1')).status === 'closed'
      })
      expect(await shop.result('u1')).toMatchObject({ status: 'closed', reason: 'lost' })
      expect(shop.alerts).toContain('lost-batch')
      await expectWhole(shop)
      expect(await shop.buy('u1')).toMatchObject({ status: 'queued', replayed: false })
    })
  })

  describe('when Redis or the database fails', () => {
    test('Redis away: a click is unknown, not failed, and the result comes from the database', async () => {
      const shop = await openShop(backend())
      await shop.buy('u1')
      await running(shop)
      await expectWhole(shop)
      await shop.sale.stop()
      const other = shop.restarted()
      shop.redis.failure = DOWN
      expect(await other.submit({ ...shop.ref, buyer: { userId: 'u2', ip: '' } })).toMatchObject({
        status: 'unknown',
      })
      expect(await other.result({ ...shop.ref, userId: 'u1' })).toMatchObject({
        status: 'confirmed',
      })
      shop.redis.failure = null
    })

    test('confirmed, but Redis could not be told: the relay settles it', async () => {
      const shop = await openShop(backend(), { sale: { stock: { deliverTimeoutMs: 1 } } })
      await shop.buy('u1')
      const worker = shop.sale.worker({ ordersPerSecond: 100 })
      shop.redis.failure = DOWN
      await worker.start()
      await until(
        'the order is booked',
        async () => (await shop.orders.findByBuyer(shop.ref, 'u1')) !== null,
      )
      await until('the alert is out', () => shop.alerts.includes('redis-not-told'))
      shop.redis.failure = null
      expect((await shop.sale.stock.numbers(shop.ref)).pending).toBe(1)
      shop.sale.relay({ everyMs: 20, leaseMs: 200 })
      await shop.sale.start()
      await expectWhole(shop)
      await shop.sale.stop()
    })

    test('closed, but Redis could not be told: the outbox returns the unit', async () => {
      const shop = await openShop(backend())
      const won = await shop.buy('u1')
      if (won.status !== 'queued') throw new Error(won.status)
      const record = await shop.sale.stock.reservation(shop.ref, 'u1')
      if (typeof record === 'string') throw new Error(record)
      await shop.orders.closeUnbooked([record], 'host')
      await shop.knex('local_message').update({ next_retry_time: 0 })
      await shop.sale.relay().run()
      expect((await shop.sale.stock.numbers(shop.ref)).available).toBe(10)
      expect(await shop.orders.takeReleases({ limit: 10, leaseMs: 1_000 })).toEqual([])
    })

    test('Q5: a database that fails for a while is tried again, and nothing is lost', async () => {
      const shop = await openShop(backend())
      let failures = 3
      const orders = new Proxy(shop.orders, {
        get: (target, name) => {
          const value = Reflect.get(target, name)
          if (name !== 'confirm') return typeof value === 'function' ? value.bind(target) : value
          return (...args: Parameters<typeof target.confirm>) =>
            failures-- > 0
              ? Promise.reject(new FlashSaleError('DB_UNAVAILABLE', 'down'))
              : target.confirm(...args)
        },
      })
      const sale = shop.restarted({ orders })
      await sale.submit({ ...shop.ref, buyer: { userId: 'u1', ip: '' } })
      await running(shop, sale)
      await expectWhole(shop)
      expect(shop.alerts.filter((a) => a === 'confirm-failed')).toHaveLength(3)
      await sale.stop()
    })
  })

  describe('messages', () => {
    test('with keys every message is signed, and a forged one makes no order', async () => {
      const messageKeys = [{ kid: 'm1', secret: Buffer.alloc(32, 3) }]
      const shop = await openShop(backend(), { sale: { messageKeys } })
      const seen: (string | undefined)[] = []
      const send = shop.queue.send.bind(shop.queue)
      shop.queue.send = (batch, o) => {
        seen.push(batch.mac)
        return send(batch, o)
      }
      await shop.buy('u1')
      const record = await shop.sale.stock.reservation(shop.ref, 'u1')
      if (typeof record === 'string') throw new Error(record)
      const { state: _, reason: __, ...reservation } = record
      const forged = { ...reservation, userId: 'thief', orderNo: newOrderNo() }
      await send({ schema: 1, batchId: newOrderNo(), ...shop.ref, reservations: [forged] })
      await running(shop)
      await expectWhole(shop)
      expect(seen).toEqual([expect.any(String)])
      expect(await shop.orders.findByBuyer(shop.ref, 'thief')).toBeNull()
      await until('the alert is out', () => shop.alerts.includes('dead-message'))
      await shop.sale.stop()
    })

    test('Q5: what a queue sets aside becomes an alert and one task for a person', async () => {
      const shop = await openShop(backend())
      const text = `{"no":"batch"}${'x'.repeat(100_000)}`
      for (let i = 0; i < 2; i++) shop.sale.setAside(text, 'not a batch of schema 1')
      const tasks = () => shop.knex('seckill_manual_task').where({ kind: 'dead-message' })
      await until('the task is written', async () =>
        (await tasks()).some((t) => String(t.detail).includes('"bytes":100014')),
      )
      await new Promise((resolve) => setTimeout(resolve, 50))
      const written = (await tasks()).filter((t) => String(t.detail).includes('"bytes":100014'))
      expect(written).toHaveLength(1)
      expect(shop.alerts).toContain('dead-message')
    })

    test('one batch that no book can take does not take the others with it', async () => {
      const shop = await openShop(backend())
      const orders = new Proxy(shop.orders, {
        get: (target, name) => {
          const value = Reflect.get(target, name)
          if (name !== 'confirm') return typeof value === 'function' ? value.bind(target) : value
          return (...[some]: Parameters<typeof target.confirm>) =>
            some.some((r) => r.userId === 'bad')
              ? Promise.reject(new FlashSaleError('BAD_INPUT', 'cannot be booked'))
              : target.confirm(some)
        },
      })
      const sale = shop.restarted({ orders })
      for (const userId of ['u1', 'bad', 'u2'])
        await sale.submit({ ...shop.ref, buyer: { userId, ip: '' } })
      sale.worker({ ordersPerSecond: 10_000 })
      await sale.start()
      await until('the others are booked', async () => {
        const rows = ['u1', 'u2'].map((u) => shop.orders.findByBuyer(shop.ref, u))
        return (await Promise.all(rows)).every((row) => row?.status === 'confirmed')
      })
      expect(await shop.orders.findByBuyer(shop.ref, 'bad')).toBeNull()
      await sale.stop()
    })
  })

  describe('levers', () => {
    test('O1: a stop is durable, and holds in a process that has not read it yet', async () => {
      const shop = await openShop(backend(), { sale: { refreshMs: 60_000 } })
      const other = shop.restarted()
      const buy = (userId: string) => other.submit({ ...shop.ref, buyer: { userId, ip: '' } })
      expect(await buy('u1')).toMatchObject({ status: 'queued' })
      expect(await shop.sale.control(shop.ref.activityId, 'stopped', AUDIT)).toEqual({
        acknowledged: 1,
        of: 1,
      })
      expect(await buy('u2')).toEqual({ status: 'stopped' })
      expect((await shop.sale.stock.numbers(shop.ref)).available).toBe(9)
    })

    test('S3: warm-up leaves a new sale stopped, and an open one open', async () => {
      const shop = await openShop(backend(), { open: false })
      expect(await shop.buy('u1')).toEqual({ status: 'stopped' })
      await shop.sale.control(shop.ref.activityId, 'open', AUDIT)
      expect(await shop.sale.warmUp(shop.ref.activityId, AUDIT)).toEqual({ status: 'already-warm' })
      expect(await shop.buy('u1')).toMatchObject({ status: 'queued' })
    })

    test('S3: a difference between database and Redis is alerted', async () => {
      const shop = await openShop(backend())
      await shop.orders.topUp(shop.ref, 5, newOrderNo(), AUDIT)
      expect(await shop.sale.warmUp(shop.ref.activityId, AUDIT)).toMatchObject({
        status: 'differs',
        what: 'total',
      })
      expect(shop.alerts).toContain('warm-up-refused')
    })

    test('a top-up reaches database and Redis once per operation id', async () => {
      const shop = await openShop(backend())
      for (let i = 0; i < 2; i++)
        expect(await shop.sale.topUp(shop.ref, 5, 'op1', AUDIT)).toMatchObject({
          total: 15,
          available: 15,
        })
      expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({ total: 15, available: 15 })
    })
  })

  test('S7: a top-up that came before Redis was warm is in it once, also when it is repeated and reconciled', async () => {
    const shop = await openShop(backend(), { warm: false })
    const { activityId } = shop.ref
    await shop.orders.prepare(shop.activity)
    const topUp = () => shop.sale.topUp(shop.ref, 5, `${activityId}-op`, AUDIT)
    await expect(topUp()).rejects.toMatchObject({ code: 'NOT_WARMED' })
    expect(await shop.sale.warmUp(activityId, AUDIT)).toEqual({ status: 'warmed' })
    await topUp()
    expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({ total: 15, available: 15 })

    // The next version's units are its own: what was added to the last is not added to them.
    const next = { ...shop.activity, version: '2' }
    await shop.activities.save(next)
    expect(await shop.sale.warmUp(activityId, AUDIT)).toEqual({ status: 'warmed' })
    const reconciler = new TriangleReconciler({ ...shop, stock: shop.sale.stock })
    const { findings } = await reconciler.inspect(activityId)
    expect(findings).toEqual([])
    expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({ total: 10, available: 10 })
  })

  test('C03: a version that has something on its way keeps its terms in the database too', async () => {
    const shop = await openShop(backend())
    const { activityId } = shop.ref
    await shop.buy('u1')
    const next = { ...shop.activity, version: '2' }
    for (const state of ['open', 'stopped'] as const) {
      await shop.sale.control(activityId, state, AUDIT)
      await shop.activities.save(next)
      expect(await shop.sale.warmUp(activityId, AUDIT)).toEqual({ status: 'version-in-use' })
    }
    expect(shop.alerts).toContain('warm-up-refused')
    await running(shop)
    await expectWhole(shop)
    expect(await shop.result('u1')).toMatchObject({ status: 'confirmed' })
  })

  describe('S11: strong mode', () => {
    test('the answer waits for the commit; sold out, repeat and stop are told', async () => {
      const shop = await openShop(backend(), { units: 2, activity: { mode: 'strong' } })
      expect(await shop.buy('u1')).toMatchObject({ status: 'confirmed', replayed: false })
      expect(await shop.result('u1')).toMatchObject({ status: 'confirmed' })
      expect(await shop.buy('u1')).toMatchObject({ status: 'already-bought' })
      expect(await shop.buy('u2')).toMatchObject({ status: 'confirmed' })
      expect(await shop.buy('u3')).toEqual({ status: 'sold-out' })
      expect(await shop.orders.numbers(shop.ref)).toMatchObject({ available: 0, live: 2 })
    })

    test('once stopped it sells no more', async () => {
      const shop = await openShop(backend(), { units: 2, activity: { mode: 'strong' } })
      await shop.sale.stop()
      await expect(shop.buy('u1')).rejects.toMatchObject({ code: 'STOPPED' })
      expect(await shop.orders.numbers(shop.ref)).toMatchObject({ available: 2, live: 0 })
    })
  })

  test('S11: levers of a strong-mode sale leave Redis alone', async () => {
    const shop = await openShop(backend(), { activity: { mode: 'strong' } })
    const { activityId } = shop.ref
    expect(await shop.sale.control(activityId, 'open', AUDIT)).toEqual({ acknowledged: 0, of: 0 })
    expect(await shop.sale.topUp(shop.ref, 5, 'op', AUDIT)).toMatchObject({ total: 15 })
    expect(await shop.sale.revokeTokens(activityId, AUDIT)).toBe(2)
    expect(shop.alerts).toEqual([])
  })

  test('an alert that every click would raise is raised once a second', async () => {
    const shop = await openShop(backend(), { warm: false })
    await shop.options.control.set(shop.ref.activityId, 'open', AUDIT)
    for (let i = 0; i < 5; i++) expect(await shop.buy(`u${i}`)).toEqual({ status: 'not-warmed' })
    expect(shop.alerts).toEqual(['not-warmed'])
  })

  test('S11: the closing of a strong-mode order owes Redis nothing', async () => {
    const shop = await openShop(backend(), { activity: { mode: 'strong' } })
    await shop.sale.control(shop.ref.activityId, 'open', AUDIT)
    const bought = await shop.buy('u1')
    if (bought.status !== 'confirmed') throw new Error(bought.status)
    await shop.orders.closeUnpaid([bought.orderNo], 'unpaid')
    await shop.knex('local_message').update({ next_retry_time: 0 })
    await shop.sale.relay().run()
    expect(await shop.knex('local_message').where({ status: 0 }).count({ n: '*' })).toEqual([
      { n: expect.toSatisfy((n) => Number(n) === 0) },
    ])
    expect(shop.alerts).toEqual([])
  })

  describe('results', () => {
    test("another buyer's number is no number of his", async () => {
      const shop = await openShop(backend())
      const won = await shop.buy('u1')
      if (won.status !== 'queued') throw new Error(won.status)
      const asked = { ...shop.ref, userId: 'u2', orderNo: won.orderNo }
      expect(await shop.sale.result(asked)).toEqual({ status: 'none' })
    })

    test('an order whose money went back is closed, though its units stay sold in Redis; without the database, paid', async () => {
      const shop = await openShop(backend())
      const won = await shop.buy('u1')
      if (won.status !== 'queued') throw new Error(won.status)
      const { orderNo } = won
      const asked = { ...shop.ref, userId: 'u1', orderNo }
      await running(shop)
      await expectWhole(shop)
      const [reservation] = await shop.orders.find([orderNo])
      if (!reservation) throw new Error('no row')
      await shop.sale.stock.move([{ to: 'paid', reservation }])
      await shop.knex('seckill_order').where({ order_no: orderNo }).update({ status: 'PAID' })
      expect(await shop.sale.result(asked)).toEqual({ status: 'paid', orderNo })

      const refunded = { status: 'CLOSED', reason: 'refunded', live_key: null }
      await shop.knex('seckill_order').where({ order_no: orderNo }).update(refunded)
      const closed = { status: 'closed', orderNo, reason: 'refunded' }
      expect(await shop.sale.result(asked)).toEqual(closed)
      const { orderNo: _, ...byBuyer } = asked
      expect(await shop.sale.result(byBuyer)).toEqual(closed)

      vi.spyOn(shop.orders, 'find').mockRejectedValueOnce(new Error('away'))
      expect(await shop.sale.result(asked)).toEqual({ status: 'paid', orderNo })
    })

    test('W0: a number that nobody knows is closed past the grace time, not polled for ever', async () => {
      const shop = await openShop(backend(), { sale: { graceMs: 1_000 } })
      const young = newOrderNo()
      const old = newOrderNo(Date.now() - 5_000)
      expect(await shop.sale.result({ ...shop.ref, userId: 'u1', orderNo: young })).toEqual({
        status: 'none',
      })
      expect(await shop.sale.result({ ...shop.ref, userId: 'u1', orderNo: old })).toMatchObject({
        status: 'closed',
      })
      expect(await shop.orders.find([old])).toHaveLength(1)
    })
  })

  describe('bad input', () => {
    const bad: [string, object][] = [
      ['activityId', { activityId: '}x' }],
      ['activityId', { activityId: 7 }],
      ['skuId', { skuId: 'a:b' }],
      ['quantity', { quantity: Number.NaN }],
      ['quantity', { quantity: '1' }],
      ['quantity', { quantity: 0.5 }],
      ['userId', { buyer: { userId: 'x'.repeat(10_000), ip: '' } }],
      ['userId', { buyer: { userId: 2 ** 60, ip: '' } }],
      ['userId', { buyer: {} }],
      ['buyer', { buyer: null }],
      ['payload', { payload: 'x'.repeat(2_000) }],
      ['payload', { payload: { n: 1n } }],
    ]
    test.each(bad)('%s: %o is a typed error and writes nothing', async (name, more) => {
      const shop = await openShop(backend())
      shop.redis.calls = 0
      const request = shop.buy('u1', more)
      await expect(request).rejects.toMatchObject({ code: 'BAD_INPUT' })
      await expect(request).rejects.toThrow(name)
      expect(shop.redis.calls).toBe(0)
    })

    test.each([
      ['control', (s: Shop) => s.sale.control('a', 'closed' as never, AUDIT)],
      ['control', (s: Shop) => s.sale.control('a', 'open', {} as never)],
      ['warmUp', (s: Shop) => s.sale.warmUp('no-such', AUDIT)],
      ['topUp', (s: Shop) => s.sale.topUp(s.ref, 0.5, 'op', AUDIT)],
      ['token', (s: Shop) => s.sale.token('{', { userId: 'u', ip: '' })],
      ['result', (s: Shop) => s.sale.result({ ...s.ref, userId: '' })],
    ])('%s refuses it too', async (_, call) => {
      await expect(call(await openShop(backend()))).rejects.toMatchObject({ code: 'BAD_INPUT' })
    })

    test('the constructor names the option', () => {
      expect(() => new FlashSale({} as never)).toThrow(/option queue/)
    })
  })
}
