import { describe, expect, it } from 'vitest'
import type { Move, Moved, Reservation } from '../../../src/core/types.js'
import type { StockBucket } from '../../../src/stock/stock-bucket.js'
import { doneKey, KEYS, REF, reservationOf, sku, type World } from './world.js'

type To = Move['to']
type Stand = 'unknown' | 'held' | To

const to = (target: To, reservation: Reservation): Move =>
  target === 'released'
    ? { to: target, reservation, reason: 'unpaid' }
    : { to: target, reservation }

/** What each move answers, and where the number stands afterwards: the whole protocol of a reservation. */
const TABLE: readonly [from: Stand, to: To, answer: Moved, then: Stand][] = [
  ['unknown', 'confirmed', 'adopted', 'confirmed'],
  ['unknown', 'paid', 'adopted', 'paid'],
  ['unknown', 'released', 'unknown', 'unknown'],
  ['held', 'confirmed', 'done', 'confirmed'],
  ['held', 'paid', 'done', 'paid'],
  ['held', 'released', 'done', 'released'],
  ['confirmed', 'confirmed', 'already', 'confirmed'],
  ['confirmed', 'paid', 'done', 'paid'],
  ['confirmed', 'released', 'done', 'released'],
  ['paid', 'confirmed', 'already', 'paid'],
  ['paid', 'paid', 'already', 'paid'],
  ['paid', 'released', 'refused', 'paid'],
  ['released', 'confirmed', 'refused', 'released'],
  ['released', 'paid', 'refused', 'released'],
  ['released', 'released', 'already', 'released'],
]
const UNITS = {
  unknown: { available: 10, frozen: 0, sold: 0, pending: 0, waiting: 0 },
  held: { available: 8, frozen: 2, sold: 0, pending: 2, waiting: 1 },
  confirmed: { available: 8, frozen: 2, sold: 0, pending: 0, waiting: 0 },
  paid: { available: 8, frozen: 0, sold: 2, pending: 0, waiting: 0 },
  released: { available: 10, frozen: 0, sold: 0, pending: 0, waiting: 0 },
} as const

async function standing(w: World, stock: StockBucket, at: Stand): Promise<Reservation> {
  if (at === 'unknown') return reservationOf({ quantity: 2 })
  const answer = await stock.deduct(w.request('u1', { orderNo: 'o1', quantity: 2 }))
  if (answer.status !== 'reserved') throw new Error(answer.status)
  if (at !== 'held') await stock.move([to(at, answer.reservation)])
  return answer.reservation
}

async function take(w: World, stock: StockBucket, userId: string, orderNo: string, quantity = 1) {
  const answer = await stock.deduct(w.request(userId, { orderNo, quantity }))
  if (answer.status !== 'reserved') throw new Error(answer.status)
  return answer.reservation
}

export function moveTests(world: () => World): void {
  it.each(TABLE)('S6 %s, to be %s: %s, and is then %s', async (from, target, answer, then) => {
    const w = world()
    const stock = await w.sale()
    const reservation = await standing(w, stock, from)
    const move = async () => {
      expect(await stock.move([to(target, reservation)])).toEqual([answer])
      await w.sound()
    }
    if (from === then) await w.unchanged(move)
    else await move()
    expect(await stock.numbers(REF)).toMatchObject({ ...UNITS[then], total: 10, over: 0 })
    const record = await stock.reservation(REF, 'u1')
    if (then === 'unknown') expect(record).toBe('none')
    else expect(record).toMatchObject({ orderNo: 'o1', quantity: 2, state: then })
    if (then === 'released') expect(record).toMatchObject({ reason: 'unpaid' })
  })

  it('S6 each move repeated changes nothing more', async () => {
    const w = world()
    const stock = await w.sale()
    const reservation = await take(w, stock, 'u1', 'o1')
    for (const target of ['confirmed', 'released'] as const) {
      await stock.move([to(target, reservation)])
      await w.unchanged(async () =>
        expect(await stock.move([to(target, reservation)])).toEqual(['already']),
      )
    }
    await w.sound()
  })

  it('S6 units go back as many as were taken, whatever the caller says of the quantity', async () => {
    const w = world()
    const stock = await w.sale()
    const reservation = await take(w, stock, 'u1', 'o1', 2)
    await stock.move([to('released', { ...reservation, quantity: 5 })])
    expect((await stock.numbers(REF)).available).toBe(10)
    await w.sound()
  })

  describe('adopting what Redis has forgotten', () => {
    it('takes the unit if it is there', async () => {
      const w = world()
      const stock = await w.sale({ skus: [sku(2)] })
      expect(await stock.move([to('confirmed', reservationOf())])).toEqual(['adopted'])
      expect(await stock.numbers(REF)).toMatchObject({ available: 1, frozen: 1, over: 0 })
      expect(await stock.deduct(w.request('u1'))).toEqual({
        status: 'already-bought',
        orderNo: 'o1',
      })
      await w.sound()
    })

    it('books in `over` what is not there, and every release pays it back first', async () => {
      const w = world()
      const stock = await w.sale({ skus: [sku(2)] })
      const a = await take(w, stock, 'u1', 'o1', 2)
      const adopted = reservationOf({ orderNo: 'o2', userId: 'u2', quantity: 3 })
      expect(await stock.move([to('paid', adopted)])).toEqual(['adopted'])
      expect(await stock.numbers(REF)).toMatchObject({ available: 0, sold: 3, total: 5, over: 3 })
      await w.sound()
      await stock.move([to('released', a)])
      expect(await stock.numbers(REF)).toMatchObject({ available: 0, total: 3, over: 1 })
      expect(await stock.deduct(w.request('u3'))).toEqual({ status: 'sold-out' })
      await w.sound()
    })

    it('takes what is there and books only the rest', async () => {
      const w = world()
      const stock = await w.sale({ skus: [sku(2)] })
      const adopted = reservationOf({ quantity: 3 })
      await stock.move([to('confirmed', adopted)])
      expect(await stock.numbers(REF)).toMatchObject({ available: 0, frozen: 3, total: 3, over: 1 })
      await w.sound()
      await stock.move([to('released', adopted)])
      expect(await stock.numbers(REF)).toMatchObject({ available: 2, total: 2, over: 0 })
      await w.sound()
    })

    it('keeps a mark that names another live number, and remembers both', async () => {
      const w = world()
      const stock = await w.sale()
      await take(w, stock, 'u1', 'o2')
      const forgotten = reservationOf({ orderNo: 'o1' })
      expect(await stock.move([to('confirmed', forgotten)])).toEqual(['adopted'])
      await w.sound()
      expect(await w.redis.hkeys(doneKey('s1'))).toEqual(
        expect.arrayContaining([' ', 'u1', ' u1 o1']),
      )
      const both = [
        { userId: 'u1', orderNo: 'o1' },
        { userId: 'u1', orderNo: 'o2' },
      ]
      expect(await stock.reservations(REF, both)).toMatchObject([
        { orderNo: 'o1', state: 'confirmed' },
        { orderNo: 'o2', state: 'held' },
      ])
      expect(await stock.reservation(REF, 'u1')).toMatchObject({ orderNo: 'o2' })
      // Each goes its own way.
      expect(await stock.move([to('paid', forgotten)])).toEqual(['done'])
      expect(await stock.move([to('released', reservationOf({ orderNo: 'o2' }))])).toEqual(['done'])
      await w.sound()
      expect(await stock.reservations(REF, both)).toMatchObject([
        { orderNo: 'o1', state: 'paid' },
        { orderNo: 'o2', state: 'released', reason: 'unpaid' },
      ])
      expect((await stock.scan(REF, '0')).rows.map((r) => [r.userId, r.orderNo, r.state])).toEqual(
        expect.arrayContaining([
          ['u1', 'o1', 'paid'],
          ['u1', 'o2', 'released'],
        ]),
      )
    })

    it('replaces a mark whose number was released, which stays released', async () => {
      const w = world()
      const stock = await w.sale()
      const old = await take(w, stock, 'u1', 'o1')
      await stock.move([to('released', old)])
      await stock.move([to('confirmed', reservationOf({ orderNo: 'o2' }))])
      await w.sound()
      expect(await stock.reservation(REF, 'u1')).toMatchObject({ orderNo: 'o2' })
      await w.unchanged(async () =>
        expect(await stock.move([to('confirmed', old), to('released', old)])).toEqual([
          'refused',
          'already',
        ]),
      )
    })

    it('a release clears the mark only of its own number', async () => {
      const w = world()
      const stock = await w.sale()
      const first = await take(w, stock, 'u1', 'o1')
      await stock.move([to('released', first)])
      await take(w, stock, 'u1', 'o2')
      expect(await stock.move([to('released', first)])).toEqual(['already'])
      expect(await stock.deduct(w.request('u1'))).toMatchObject({
        status: 'already-bought',
        orderNo: 'o2',
      })
      await w.sound()
    })
  })

  it('a number released is never confirmed, not even in the call that releases it', async () => {
    const w = world()
    const stock = await w.sale()
    const a = await take(w, stock, 'u1', 'o1')
    const b = reservationOf({ orderNo: 'o2', userId: 'u2' })
    const moved = await stock.move([
      to('confirmed', a),
      to('confirmed', a),
      to('released', a),
      to('confirmed', a),
      to('paid', a),
      to('released', b),
      to('paid', b),
      to('confirmed', b),
      to('released', b),
    ])
    expect(moved).toEqual([
      'done',
      'already',
      'done',
      'refused',
      'refused',
      'unknown',
      'adopted',
      'already',
      'refused',
    ])
    expect(await stock.numbers(REF)).toMatchObject({ available: 9, sold: 1 })
    await w.sound()
  })

  it('nor when another number takes its place in the mark meanwhile', async () => {
    const w = world()
    const stock = await w.sale()
    const a = await take(w, stock, 'u1', 'o1')
    const b = reservationOf({ orderNo: 'o2' })
    expect(await stock.move([to('released', a), to('confirmed', b), to('confirmed', a)])).toEqual([
      'done',
      'adopted',
      'refused',
    ])
    await w.sound()
  })

  it('adopts two numbers of one buyer in one call, each once', async () => {
    const w = world()
    const stock = await w.sale()
    const twice = ['o1', 'o2', 'o1', 'o2'].map((orderNo) =>
      to('confirmed', reservationOf({ orderNo })),
    )
    expect(await stock.move(twice)).toEqual(['adopted', 'adopted', 'already', 'already'])
    expect((await stock.numbers(REF)).frozen).toBe(2)
    await w.sound()
  })

  it('moves 1,000 of several SKUs at once and answers in order', async () => {
    const w = world()
    const count = w.engine === 'mock' ? 600 : 1_000
    const stock = await w.sale({ skus: [sku(count), sku(count, 's2')], watermark: 5_000 })
    const skuOf = (i: number) => (i % 3 === 0 ? 's2' : 's1')
    const answers = await Promise.all(
      Array.from({ length: count }, (_, i) =>
        stock.deduct(w.request(`u${i}`, { skuId: skuOf(i), orderNo: `o${i}` })),
      ),
    )
    const reservations = answers.map((a) => (a.status === 'reserved' ? a.reservation : null))
    await w.sound()
    const unknown = reservationOf({ orderNo: 'zz', userId: 'zz' })
    const moves = reservations.map((r, i) =>
      i % 2 ? to('confirmed', r as Reservation) : to('released', r as Reservation),
    )
    const moved = await stock.move([
      ...moves.slice(0, 500),
      to('released', unknown),
      ...moves.slice(500),
    ])
    expect(moved.filter((m) => m === 'done')).toHaveLength(count)
    expect(moved[500]).toBe('unknown')
    expect((await stock.numbers(REF)).waiting).toBe(0)
    await w.sound()
  })

  it('no move at all is no call', async () => {
    expect(await world().bucket().move([])).toEqual([])
  })

  describe('a top-up', () => {
    it('S3 changes S by difference, once per operation id', async () => {
      const w = world()
      const stock = await w.sale()
      await take(w, stock, 'u1', 'o1')
      expect(await stock.topUp(REF, 5, 'op1')).toMatchObject({ total: 15, available: 14 })
      await w.unchanged(async () =>
        expect(await stock.topUp(REF, 5, 'op1')).toMatchObject({ total: 15 }),
      )
      await w.sound({ units: { s1: 15 } })
      expect(await stock.topUp(REF, -14, 'op2')).toMatchObject({ total: 1, available: 0, over: 0 })
      await w.sound({ units: { s1: 1 } })
      expect(await stock.warmUp(w.activity, [{ ...REF, total: 1, available: 0, live: 1 }])).toEqual(
        {
          status: 'already-warm',
        },
      )
    })

    it('books in `over` what is withdrawn and already reserved; the next units pay it first', async () => {
      const w = world()
      const stock = await w.sale({ skus: [sku(4)] })
      const a = await take(w, stock, 'u1', 'o1', 3)
      expect(await stock.topUp(REF, -3, 'op1')).toMatchObject({ total: 3, available: 0, over: 2 })
      await w.sound({ units: { s1: 1 } })
      expect(await stock.topUp(REF, 1, 'op2')).toMatchObject({ total: 3, available: 0, over: 1 })
      await w.sound({ units: { s1: 2 } })
      await stock.move([to('released', a)])
      expect(await stock.numbers(REF)).toMatchObject({ total: 2, available: 2, over: 0 })
      await w.sound({ units: { s1: 2 } })
    })

    it('never withdraws more than S, nor adds beyond its bound', async () => {
      const w = world()
      const stock = await w.sale()
      await take(w, stock, 'u1', 'o1', 3)
      await w.unchanged(async () => {
        await expect(stock.topUp(REF, -11, 'op1')).rejects.toMatchObject({ code: 'BAD_INPUT' })
        await expect(stock.topUp(REF, 1_000_000_000, 'op1')).rejects.toMatchObject({
          code: 'BAD_INPUT',
        })
      })
      expect(await stock.topUp(REF, -10, 'op1')).toMatchObject({ total: 3, over: 3 })
      await w.sound({ units: { s1: 0 } })
    })

    it('an operation id cannot pass for a number of the stock', async () => {
      const w = world()
      const stock = await w.sale()
      for (const id of ['total', 'available', 'version', 'over']) await stock.topUp(REF, 1, id)
      expect(await stock.numbers(REF)).toMatchObject({ total: 14, available: 14, version: 'v1' })
      await w.sound({ units: { s1: 14 } })
    })
  })

  it('S3 opening, revoking, moving, topping up and reporting create no key of a cold sale', async () => {
    const w = world()
    const stock = w.bucket()
    const batch = { schema: 1, batchId: 'b1', ...REF, reservations: [reservationOf()] } as const
    expect(await stock.control('a1', 'open')).toEqual({ acknowledged: 0, of: 1 })
    for (const cold of [
      () => stock.revokeTokens('a1', 3),
      () => stock.move([to('confirmed', reservationOf())]),
      () => stock.topUp(REF, 1, 'op1'),
      () => stock.numbers(REF),
      () => stock.takeOwed('a1', { leaseMs: 1_000, limit: 1 }),
      () => stock.delivered(batch, 'accepted'),
      () => stock.delivered(batch, 'settled'),
      () => stock.delivered(batch, { closed: ['o1'] }),
      () => stock.scan(REF, '0'),
    ])
      await expect(cold(), String(cold)).rejects.toMatchObject({ code: 'NOT_WARMED' })
    expect(await stock.reservation(REF, 'u1')).toBe('not-warmed')
    expect(await stock.reservations(REF, [{ userId: 'u1', orderNo: 'o1' }])).toBe('not-warmed')
    expect(await stock.deduct(w.request('u1'))).toEqual({ status: 'not-warmed' })
    expect(await w.redis.keys('*')).toEqual([])
    expect(KEYS.sale).toBe('seckill:sale:{a1}')
  })
}
