import { CompensationSaga, type OrderSagaParts, orderSaga, type Reservation } from 'flash-sale-kit'
import { KnexSagaStore } from 'flash-sale-kit/knex'
import { afterEach, expect, test } from 'vitest'
import { type Backend, openShop } from '../pipeline/shop.js'
import { AUDIT, newId } from './kit.js'

/** A shop with ten units, one of them Ann's, and sagas that take orders back. */
async function openOrderShop(backend: Backend, o: { readonly confirmed: boolean }) {
  const shop = await openShop(backend)
  const { knex, orders, ref } = shop
  const { stock } = shop.sale
  await shop.buy('ann')
  const [ann] = (await stock.scan(ref, '0')).rows
  const { state: _, ...reservation } = ann as Reservation & { state: string }
  if (o.confirmed) {
    await orders.confirm([reservation])
    await stock.move([{ to: 'confirmed', reservation }])
  }
  const { orderNo } = reservation
  const refunds: (readonly [string, string])[] = []
  const refund: OrderSagaParts['refund'] = async (...asked) => void refunds.push(asked)
  const begin = async (parts: Partial<OrderSagaParts>, withReservation = false) => {
    const saga = new CompensationSaga({
      store: new KnexSagaStore({ knex }),
      definition: orderSaga({ orders, stock, refund, ...parts }),
      everyMs: 10,
    })
    const id = newId() + orderNo
    const data = { orderNo, reason: 'risk', ...(withReservation ? { reservation } : {}) }
    await knex.transaction((trx) => saga.begin(trx, { id, data }))
    return { id, saga }
  }
  const again = async (saga: CompensationSaga<never, never>, id: string) => {
    await knex('seckill_saga').where({ saga_id: id }).update({ next_time: 0 })
    await saga.run()
  }
  /** Free units in Redis and in the database, and the order's row. */
  const look = async () => ({
    redis: (await stock.numbers(ref)).available,
    database: (await orders.numbers(ref))?.available,
    order: (await orders.find([orderNo]))[0],
  })
  const releases = () => knex('local_message').where({ biz_no: `release:${orderNo}` })
  return { ...shop, stock, reservation, orderNo, refunds, begin, again, look, releases }
}

export function orderSagaSuite(backend: () => Backend): void {
  // All are of one kind: what a test leaves unfinished is not the next one's to carry on.
  afterEach(() => backend().knex('seckill_saga').delete())

  test('P3: closed in the database, then given back in Redis, then refunded', async () => {
    const shop = await openOrderShop(backend(), { confirmed: true })
    const { stock, orders, orderNo } = shop
    const acts: string[] = []
    const { id, saga } = await shop.begin({
      orders: {
        find: (numbers) => orders.find(numbers),
        released: (numbers) => orders.released(numbers),
        closeUnbooked: (reservations, reason) => orders.closeUnbooked(reservations, reason),
        closeUnpaid: (numbers, reason) => {
          acts.push('close')
          return orders.closeUnpaid(numbers, reason)
        },
      },
      stock: {
        move: async (moves) => {
          acts.push(`give back what is ${(await orders.find([orderNo]))[0]?.status}`)
          return stock.move(moves)
        },
      },
      refund: async (...asked) => void acts.push(`refund ${asked.join(' ')}`),
    })
    await saga.run()
    expect(acts).toEqual(['close', 'give back what is closed', `refund ${orderNo} ${id}:refund`])
    expect(await saga.find(id)).toMatchObject({ status: 'done' })
    expect(await shop.look()).toMatchObject({
      redis: 10,
      database: 10,
      order: { status: 'closed', reason: 'risk' },
    })
    expect(await shop.releases()).toMatchObject([{ status: 1 }])
  })

  test('P3: a number that the database never took gets a CLOSED row first', async () => {
    const shop = await openOrderShop(backend(), { confirmed: false })
    const { id, saga } = await shop.begin({}, true)
    await saga.run()
    expect(await saga.find(id)).toMatchObject({ status: 'done' })
    expect(await shop.look()).toMatchObject({
      redis: 10,
      order: { status: 'closed', reason: 'risk' },
    })
    expect(await shop.orders.confirm([shop.reservation])).toMatchObject([{ status: 'closed' }])
  })

  test('P3: a number without row or reservation ends the saga, nothing is given back', async () => {
    const shop = await openOrderShop(backend(), { confirmed: false })
    const { id, saga } = await shop.begin({})
    await saga.run()
    expect(await saga.find(id)).toMatchObject({ status: 'undone', reason: 'not-found' })
    expect(await shop.look()).toMatchObject({ redis: 9, order: undefined })
    expect(shop.refunds).toEqual([])
  })

  test('P3: the reservation of another number is refused, and not closed', async () => {
    const shop = await openOrderShop(backend(), { confirmed: false })
    const steps = orderSaga({ orders: shop.orders, refund: async () => {} }).steps
    const data = { orderNo: 'another', reason: 'risk', reservation: shop.reservation }
    expect(await steps[0]?.do(data, undefined as never)).toMatchObject({ status: 'failed' })
    expect(await shop.look()).toMatchObject({ redis: 9, order: undefined })
  })

  test('P3: a PAID order is closed by its refund alone, and its unit does not go back on sale', async () => {
    const shop = await openOrderShop(backend(), { confirmed: true })
    const { knex, orderNo, stock, reservation } = shop
    await knex('seckill_order').where({ order_no: orderNo }).update({ status: 'PAID' })
    await stock.move([{ to: 'paid', reservation }])
    const { id, saga } = await shop.begin({})
    await saga.run()
    expect(await saga.find(id)).toMatchObject({ status: 'done' })
    expect(shop.refunds).toEqual([[orderNo, `${id}:refund`]])
    expect(await shop.look()).toMatchObject({ redis: 9, database: 9, order: { status: 'paid' } })
  })

  test('P3: Redis away, the refund does not wait; the outbox gives the unit back later', async () => {
    const shop = await openOrderShop(backend(), { confirmed: true })
    const { id, saga } = await shop.begin({})
    shop.redis.failure = new Error('away')
    await saga.run()
    shop.redis.failure = null
    expect(await saga.find(id)).toMatchObject({ status: 'done' })
    expect(shop.refunds).toHaveLength(1)
    expect(await shop.look()).toMatchObject({ redis: 9, database: 10, order: { status: 'closed' } })
    expect(await shop.releases()).toMatchObject([{ status: 0 }])
    await shop.knex('local_message').update({ next_retry_time: 0 })
    await shop.sale.relay().run()
    expect(await shop.look()).toMatchObject({ redis: 10 })
  })

  test('C21 (c): user, timeout, risk and saga close one order at once: one release', async () => {
    const shop = await openOrderShop(backend(), { confirmed: true })
    const { orders, orderNo, stock, reservation } = shop
    const close = async (reason: string) => {
      const [verdict] = await orders.closeUnpaid([orderNo], reason)
      await stock.move([{ to: 'released', reservation, reason }])
      return verdict?.status === 'closed' && verdict.fresh ? 1 : 0
    }
    const begun = [await shop.begin({}), await shop.begin({})]
    const closed = await Promise.all([
      close('user'),
      close('timeout'),
      close('blocked'),
      ...begun.map(async ({ saga }) => {
        await saga.run()
        return 0
      }),
    ])
    const fresh = closed.reduce<number>((a, b) => a + b, 0)
    for (const { id, saga } of begun) expect(await saga.find(id)).toMatchObject({ status: 'done' })
    const now = await shop.look()
    expect(now).toMatchObject({ redis: 10, database: 10, order: { status: 'closed' } })
    expect(fresh, 'exactly one of the five closed it').toBe(now.order?.reason === 'risk' ? 0 : 1)
    expect((await stock.numbers(shop.ref)).frozen).toBe(0)
  })

  test('C25: the answer of a refund is lost: it is asked for again under the same id', async () => {
    const shop = await openOrderShop(backend(), { confirmed: true })
    let tries = 0
    const { id, saga } = await shop.begin({
      refund: async (...asked) => {
        shop.refunds.push(asked)
        if (++tries < 3) throw new Error('answer lost')
      },
    })
    await saga.run()
    await shop.again(saga as never, id)
    await shop.again(saga as never, id)
    expect(await saga.find(id)).toMatchObject({ status: 'done' })
    expect(shop.refunds).toHaveLength(3)
    expect(new Set(shop.refunds.map(([, refundId]) => refundId))).toEqual(new Set([`${id}:refund`]))
  })

  test('P3: the database fails at the close: looked up, closed once, the rest follows', async () => {
    const shop = await openOrderShop(backend(), { confirmed: true })
    const { orders } = shop
    let failures = 2
    const closings: unknown[] = []
    const { id, saga } = await shop.begin({
      orders: {
        find: (numbers) => orders.find(numbers),
        released: (numbers) => orders.released(numbers),
        closeUnbooked: (reservations, reason) => orders.closeUnbooked(reservations, reason),
        closeUnpaid: async (numbers, reason) => {
          if (failures-- === 2) throw new Error('the database is away')
          closings.push(await orders.closeUnpaid(numbers, reason))
          throw new Error('the answer is lost')
        },
      },
    })
    await saga.run()
    await shop.again(saga as never, id)
    expect(await saga.find(id)).toMatchObject({ status: 'running', step: 'close', tries: 2 })
    await shop.again(saga as never, id)
    expect(closings).toHaveLength(1)
    expect(await saga.find(id)).toMatchObject({ status: 'done' })
    expect(await shop.look()).toMatchObject({
      redis: 10,
      database: 10,
      order: { status: 'closed' },
    })
  })

  test('P3: an order that cannot be closed is neither given back nor refunded', async () => {
    const shop = await openOrderShop(backend(), { confirmed: true })
    const { orders, orderNo } = shop
    const { id, saga } = await shop.begin({
      orders: {
        find: (numbers) => orders.find(numbers),
        released: (numbers) => orders.released(numbers),
        closeUnbooked: (reservations, reason) => orders.closeUnbooked(reservations, reason),
        closeUnpaid: async () => [{ orderNo, status: 'confirmed', fresh: false }],
      },
    })
    await saga.run()
    expect(await saga.find(id)).toMatchObject({
      status: 'running',
      step: 'close',
      lastError: 'Error: the order could not be closed',
    })
    expect(await shop.look()).toMatchObject({ redis: 9, order: { status: 'confirmed' } })
    expect(shop.refunds).toEqual([])
  })

  test('P3: a refused refund goes to a person; the order stays closed', async () => {
    const shop = await openOrderShop(backend(), { confirmed: true })
    const { id, saga } = await shop.begin({
      refund: async () => ({ status: 'failed', reason: 'channel closed' }),
    })
    await saga.run()
    expect(await saga.find(id)).toMatchObject({ status: 'parked', reason: 'channel closed' })
    expect(await shop.look()).toMatchObject({ redis: 10, order: { status: 'closed' } })
    expect(await saga.resume(id, AUDIT, 'settled')).toBe(true)
    expect(await saga.find(id)).toMatchObject({ status: 'undone' })
  })

  test('P3: in strong mode nobody holds units in Redis', async () => {
    const shop = await openOrderShop(backend(), { confirmed: true })
    const { stock: _, ...parts } = { stock: null, orders: shop.orders, refund: async () => {} }
    const [, giveBack] = orderSaga(parts).steps
    await shop.orders.closeUnpaid([shop.orderNo], 'unpaid')
    await giveBack?.do({ orderNo: shop.orderNo, reason: 'risk' }, undefined as never)
    expect(await shop.releases()).toMatchObject([{ status: 0 }])
  })
}
