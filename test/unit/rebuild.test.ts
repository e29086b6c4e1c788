import { type Activity, type OrderRow, StockBucket } from 'flash-sale-kit'
import type { Redis } from 'ioredis'
import { beforeEach, describe, expect, it } from 'vitest'
import { mockRedis } from '../harness/redis.js'
import { activityOf, numbersOf, REF, reservationOf, sku } from '../suites/stock-bucket/world.js'

const row = (o: Partial<OrderRow>): OrderRow => ({
  ...reservationOf(o),
  ...{ status: 'confirmed', reason: null, amountMinor: 1, currency: 'CNY', payBy: Date.now() },
  ...o,
})

const bookOf = (rows: readonly OrderRow[], total = 10) => ({
  topUps: async () => ({ total, operations: [{ operationId: 'op1', units: 2 }] }),
  async *snapshot() {
    yield* rows
  },
})

describe('StockBucket.rebuild', () => {
  let stock: StockBucket
  let redis: Redis
  let calls = 0
  /** Happens between an answer and whoever waits for it. */
  let meanwhile: (() => Promise<unknown>) | null = null
  const activity = activityOf({ skus: [sku(8)] })

  beforeEach(() => {
    redis = mockRedis()
    calls = 0
    stock = new StockBucket({
      redis: {
        async evalsha(...args) {
          calls++
          const answer = await redis.evalsha(...args)
          const first = meanwhile
          meanwhile = null
          await first?.()
          return answer
        },
        eval: (...args) => redis.eval(...args),
      },
      deliver: 'nothing-owed',
    })
  })

  it('makes a stopped sale of what the book says', async () => {
    const rows = [
      row({ orderNo: 'o1', userId: 'u1', quantity: 2 }),
      row({ orderNo: 'o2', userId: 'u2', status: 'paid' }),
      row({ orderNo: 'o3', userId: 'u3', status: 'closed', reason: 'lost' }),
      row({ orderNo: 'o4', userId: 'u4', quantity: 3, status: 'closed', reason: 'refunded' }),
    ]
    const rebuilt = await stock.rebuild(activity, bookOf(rows), { tokenEpoch: 3 })
    expect(rebuilt).toMatchObject({ status: 'rebuilt', orders: 4 })
    expect(await stock.numbers(REF)).toMatchObject({
      ...{ total: 10, available: 4, frozen: 2, sold: 4, pending: 0, over: 0 },
      ...{ state: 'stopped', waiting: 0, owed: 0 },
    })
    expect(await stock.reservation(REF, 'u3')).toMatchObject({ state: 'released', reason: 'lost' })
    expect(await stock.reservation(REF, 'u4')).toMatchObject({ state: 'paid' })
    await stock.topUp(REF, 2, 'op1')
    expect((await stock.numbers(REF)).total).toBe(10)
  })

  it('books in `over` what is sold beyond S, and a buyer’s second live order beside his first', async () => {
    const rows = [
      row({ orderNo: 'o1', userId: 'u1', quantity: 6 }),
      row({ orderNo: 'o2', userId: 'u1', quantity: 6 }),
    ]
    await stock.rebuild(activity, bookOf(rows), { tokenEpoch: 1 })
    expect(await stock.numbers(REF)).toMatchObject({ total: 12, available: 0, frozen: 12, over: 2 })
    const both = rows.map(({ userId, orderNo }) => ({ userId, orderNo }))
    expect(await stock.reservations(REF, both)).toMatchObject([
      { orderNo: 'o1', state: 'confirmed' },
      { orderNo: 'o2', state: 'confirmed' },
    ])
  })

  it('S10: what is sold while it looks is no Redis that went back in time', async () => {
    await stock.rebuild(activity, bookOf([]), { tokenEpoch: 1 })
    await stock.control('a1', 'open')
    meanwhile = () => stock.deduct({ ...REF, userId: 'u1', version: activity.version })
    expect((await stock.standing(activity)).status).toBe('warm')
    expect((await stock.numbers(REF)).frozen).toBe(1)
  })

  it('takes an epoch above all that was seen, whatever Redis’ clock says', async () => {
    const above = Date.now() + 1_000_000
    const made = await stock.rebuild(activity, bookOf([]), { tokenEpoch: 1, above })
    expect(made).toMatchObject({ status: 'rebuilt', epoch: above + 1 })
    stock.expect('a1', { epoch: above + 5, seq: 0 })
    expect((await stock.standing(activity)).status).toBe('rewound')
    const again = await stock.rebuild(activity, bookOf([]), { tokenEpoch: 1 })
    expect(again).toMatchObject({ status: 'rebuilt', epoch: above + 6 })
  })

  it.each(['done:s1', 'released', 'stock:s1'])(
    'S10: %s collected, lost and begun anew in the middle is not put in place',
    async (what) => {
      await stock.warmUp(activity, numbersOf(activity))
      const rows = Array.from({ length: 300 }, (_, i) =>
        row({ orderNo: `o${i}`, userId: `u${i}`, status: i % 2 ? 'closed' : 'paid' }),
      )
      const lossy = {
        ...bookOf(rows, 300),
        async *snapshot() {
          yield* rows.slice(0, 200)
          for (const key of await redis.keys(`*:${what}`))
            if (key.startsWith('seckill:rebuild:')) await redis.del(key)
          yield* rows.slice(200)
        },
      }
      expect(await stock.rebuild(activity, lossy, { tokenEpoch: 1 })).toEqual({ status: 'lost' })
      expect(await stock.numbers(REF)).toMatchObject({ total: 8, available: 8 })
    },
  )

  it('all orders of many pages are in place, and every closed one has its tombstone', async () => {
    const rows = Array.from({ length: 300 }, (_, i) =>
      row({ orderNo: `o${i}`, userId: `u${i % 200}`, status: i < 200 ? 'closed' : 'paid' }),
    )
    await stock.rebuild(activity, bookOf(rows, 300), { tokenEpoch: 1 })
    expect(await stock.numbers(REF)).toMatchObject({ available: 200, sold: 100 })
    const records = await stock.reservations(REF, rows)
    expect(records).toMatchObject(
      rows.map((r) => ({ orderNo: r.orderNo, state: r.status === 'paid' ? 'paid' : 'released' })),
    )
  })

  it('does not touch a sale that is open', async () => {
    await stock.warmUp(activity, numbersOf(activity))
    await stock.control('a1', 'open')
    expect(await stock.rebuild(activity, bookOf([]), { tokenEpoch: 1 })).toEqual({
      status: 'overtaken',
    })
    expect(await stock.numbers(REF)).toMatchObject({ total: 8, state: 'open' })
  })

  const good = bookOf([])
  it.each([
    ['activity', { ...activity, skus: [] } as Activity, good, { tokenEpoch: 1 }],
    ['orders', activity, null, { tokenEpoch: 1 }],
    ['options', activity, good, null],
    ['tokenEpoch', activity, good, {}],
    ['tokenEpoch', activity, good, { tokenEpoch: Number.NaN }],
    ['tokenEpoch', activity, good, { tokenEpoch: 1n }],
    ['above', activity, good, { tokenEpoch: 1, above: 0.5 }],
    ['above', activity, good, { tokenEpoch: 1, above: '7' }],
  ] as const)('refuses a bad %s before any I/O', async (_, a, orders, o) => {
    await expect(stock.rebuild(a, orders as never, o as never)).rejects.toMatchObject({
      code: 'BAD_INPUT',
    })
    expect(calls).toBe(0)
  })

  it.each([
    ['order number', row({ orderNo: 'x'.repeat(10_000) })],
    ['buyer', row({ userId: 'a|b' })],
    ['quantity', row({ quantity: 0.5 })],
    ['instant', row({ reservedAt: 5 })],
  ])('a book with a bad %s changes nothing', async (_, bad) => {
    await stock.warmUp(activity, numbersOf(activity))
    await expect(stock.rebuild(activity, bookOf([bad]), { tokenEpoch: 1 })).rejects.toMatchObject({
      code: 'BAD_INPUT',
    })
    expect(await stock.numbers(REF)).toMatchObject({ total: 8, available: 8 })
  })

  it.each([
    [7, { epoch: 1, seq: 1 }],
    ['a1', null],
    ['a1', { epoch: -1, seq: 1 }],
    ['a1', { epoch: 1, seq: Number.NaN }],
    ['a1', { epoch: 1n, seq: 1 }],
  ])('expect refuses %s %s', (id, fence) => {
    expect(() => stock.expect(id as never, fence as never)).toThrow(/must be/)
  })
})
