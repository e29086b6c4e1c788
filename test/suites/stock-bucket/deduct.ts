import { describe, expect, it } from 'vitest'
import type { StockBucket } from '../../../src/stock/stock-bucket.js'
import { candidateOf, KEYS, numbersOf, REF, reservationOf, sku, type World } from './world.js'

export function deductTests(world: () => World): void {
  const T1 = { tokenId: 't1', issue: 1 }

  it('S2 takes a unit, counts it and records the buyer and the message', async () => {
    const w = world()
    const stock = await w.sale()
    const answer = await stock.deduct(w.request('u1', { quantity: 3, payload: { size: 'L' } }))
    expect(answer).toMatchObject({
      status: 'reserved',
      replayed: false,
      reservation: { ...REF, userId: 'u1', quantity: 3, bucket: 0, payload: { size: 'L' } },
    })
    expect(await stock.numbers(REF)).toMatchObject({
      available: 7,
      frozen: 3,
      pending: 3,
      waiting: 1,
      owed: 1,
    })
    expect(w.batches).toHaveLength(1)
    expect(w.batches[0]?.reservations).toEqual([answer.status === 'reserved' && answer.reservation])
    await w.sound()
  })

  it('S2 refuses: sold out, not enough, over the limit, another version; and writes nothing', async () => {
    const w = world()
    const stock = await w.sale({ skus: [sku(3)], maxPerOrder: 5 })
    await stock.deduct(w.request('u1', { quantity: 2 }))
    await w.unchanged(async () => {
      const ask = (o: object) => stock.deduct(w.request('u2', o))
      expect(await ask({ quantity: 2 })).toEqual({ status: 'not-enough', available: 1 })
      expect(await ask({ quantity: 6 })).toEqual({ status: 'over-limit', maxPerOrder: 5 })
      expect(await ask({ version: 'v0' })).toEqual({ status: 'version-mismatch' })
      expect(await ask({ skuId: 's9' })).toEqual({ status: 'not-warmed' })
      expect(await ask({ activityId: 'a9' })).toEqual({ status: 'not-warmed' })
    })
    await stock.deduct(w.request('u3'))
    await w.unchanged(async () =>
      expect(await stock.deduct(w.request('u2'))).toEqual({ status: 'sold-out' }),
    )
    await w.sound()
  })

  it('S2 refuses before it opens, after it ended and while it is stopped', async () => {
    const w = world()
    const now = Date.now()
    const opensAt = now + 10_000
    const early = await w.sale({ opensAt })
    expect(await early.deduct(w.request('u1'))).toEqual({ status: 'not-open', opensAt })
    await w.redis.flushall()
    const late = await w.sale({ opensAt: now - 60_000, endsAt: now - 2_000 })
    expect(await late.deduct(w.request('u1'))).toEqual({ status: 'ended' })
    await w.redis.flushall()
    const stopped = await w.sale()
    expect(await stopped.control('a1', 'stopped')).toEqual({ acknowledged: 1, of: 1 })
    expect(await stopped.deduct(w.request('u1'))).toEqual({ status: 'stopped' })
    await w.sound()
  })

  it('C03e 500 calls at stock 0 sell nothing, load nothing and touch no other SKU', async () => {
    const w = world()
    const stock = await w.sale({ skus: [sku(5), sku(5, 's2')] })
    await Promise.all(Array.from({ length: 5 }, (_, i) => stock.deduct(w.request(`u${i}`))))
    await w.unchanged(async () => {
      const late = Array.from({ length: 500 }, (_, i) => stock.deduct(w.request(`late${i}`)))
      const told = new Set((await Promise.all(late)).map((a) => a.status))
      expect([...told]).toEqual(['sold-out'])
    })
    await w.sound()
  })

  it('sells exactly S to a crowd of mixed quantities, never more and none left that fits', async () => {
    const w = world()
    const stock = await w.sale({ skus: [sku(50)] })
    const crowd = Array.from({ length: 120 }, (_, i) =>
      stock.deduct(w.request(`u${i}`, { quantity: 1 + (i % 3) })),
    )
    const taken = (await Promise.all(crowd)).map((a) =>
      a.status === 'reserved' ? a.reservation.quantity : 0,
    )
    expect(taken.reduce((a, b) => a + b)).toBe(50)
    expect(w.batches.flatMap((b) => b.reservations)).toHaveLength(taken.filter((q) => q).length)
    await w.sound()
  })

  describe('a replay', () => {
    it('S5 by order number or by token gets the first answer and takes nothing', async () => {
      const w = world()
      const stock = await w.sale({ tokens: 'required' })
      const first = await stock.deduct(w.request('u1', { token: T1, orderNo: 'o1' }))
      expect(first).toMatchObject({ status: 'reserved', replayed: false })
      await w.unchanged(async () => {
        const byNumber = await stock.deduct(w.request('u1', { token: T1, orderNo: 'o1' }))
        expect(byNumber).toEqual({ ...first, replayed: true })
        const byToken = await stock.deduct(w.request('u1', { token: T1 }))
        expect(byToken).toEqual({ ...first, replayed: true })
        const other = { tokenId: 't2', issue: 1 }
        expect(await stock.deduct(w.request('u1', { token: other }))).toEqual({
          status: 'already-bought',
          orderNo: 'o1',
        })
      })
      await w.sound()
    })

    it('is answered before state, version, window and stock are looked at', async () => {
      const w = world()
      const stock = await w.sale({ skus: [sku(1)], tokens: 'required' })
      const request = w.request('u1', { token: T1, orderNo: 'o1' })
      const first = await stock.deduct(request)
      const again = async (what: string) =>
        w.unchanged(async () =>
          expect(await stock.deduct(request), what).toEqual({ ...first, replayed: true }),
        )
      await again('sold out')
      await stock.control('a1', 'stopped')
      await again('stopped')
      await stock.revokeTokens('a1', 9)
      await again('token revoked')
      await w.redis.hset(KEYS.sale, 'endsAt', String(Date.now() - 5_000))
      await again('ended')
      await w.redis.hset(KEYS.sale, 'scripts', 'x')
      await again('other scripts')
      const other = await stock.deduct({ ...request, version: 'v0' })
      expect(other).toMatchObject({ status: 'reserved', replayed: true })
      expect(await stock.deduct(w.request('u2', { token: T1 }))).toEqual({
        status: 'script-mismatch',
      })
    })

    it('keeps the quantity of the first call, and does not send another message for it', async () => {
      const w = world()
      const stock = await w.sale({ maxPerOrder: 1 })
      await stock.deduct(w.request('u1', { orderNo: 'o1' }))
      const again = await stock.deduct(w.request('u1', { orderNo: 'o1', quantity: 5 }))
      expect(again).toMatchObject({
        status: 'reserved',
        replayed: true,
        reservation: { quantity: 1 },
      })
      expect(w.batches.flatMap((b) => b.reservations).map((r) => r.quantity)).toEqual([1])
      await w.sound()
    })

    it('of a released number is told to try again, whatever the buyer did since', async () => {
      const w = world()
      const stock = await w.sale()
      for (const orderNo of ['o1', 'o2']) {
        const answer = await stock.deduct(w.request('u1', { orderNo }))
        if (answer.status !== 'reserved') throw new Error(answer.status)
        const { reservation } = answer
        await stock.move([{ to: 'released', reservation, reason: 'unpaid' }])
        await w.sound()
      }
      await stock.control('a1', 'stopped')
      await w.unchanged(async () => {
        for (const orderNo of ['o1', 'o2'])
          expect(await stock.deduct(w.request('u1', { orderNo }))).toEqual({ status: 'try-again' })
      })
      await stock.control('a1', 'open')
      expect(await stock.deduct(w.request('u1', { orderNo: 'o3' }))).toMatchObject({
        status: 'reserved',
        replayed: false,
      })
      expect(await stock.deduct(w.request('u1', { orderNo: 'o1' }))).toEqual({
        status: 'already-bought',
        orderNo: 'o3',
      })
      await w.sound()
    })

    it('of a number that was adopted beside a released one takes no second unit', async () => {
      const w = world()
      const stock = await w.sale()
      await stock.deduct(w.request('u1', { orderNo: 'o2' }))
      const forgotten = reservationOf({ orderNo: 'o1' })
      const moved = await stock.move([
        { to: 'confirmed', reservation: forgotten },
        { to: 'released', reservation: reservationOf({ orderNo: 'o2' }), reason: 'second' },
      ])
      expect(moved).toEqual(['adopted', 'done'])
      await w.unchanged(async () =>
        expect(await stock.deduct(w.request('u1', { orderNo: 'o1' }))).toMatchObject({
          status: 'reserved',
          replayed: true,
        }),
      )
      await w.sound()
    })
  })

  describe('one buyer many times', () => {
    it('S5 64 times in one script: one unit leaves, the others hear of it', async () => {
      const w = world()
      await w.sale()
      const numbers = Array.from({ length: 64 }, (_, i) => candidateOf({ orderNo: `o${i}` }))
      const answers = await w.script(numbers)
      expect(answers[0]).toMatchObject({ status: 'reserved', replayed: false })
      for (const answer of answers.slice(1))
        expect(answer).toEqual({ status: 'already-bought', orderNo: 'o0' })
      expect((await w.bucket().numbers(REF)).available).toBe(9)
      await w.sound()
    })

    it('C07a one token 64 times in one script: one unit, 63 replays of it', async () => {
      const w = world()
      await w.sale({ tokens: 'required' })
      const answers = await w.script(
        Array.from({ length: 64 }, (_, i) => candidateOf({ orderNo: `o${i}` }, { token: T1 })),
      )
      for (const [i, answer] of answers.entries())
        expect(answer).toMatchObject({
          status: 'reserved',
          replayed: i > 0,
          reservation: { orderNo: 'o0' },
        })
      await w.sound()
    })

    it('S5 64 equal clicks at once are one call: one number, one unit', async () => {
      const w = world()
      const stock = await w.sale()
      const clicks = Array.from({ length: 64 }, () => stock.deduct(w.request('u1')))
      const answers = await Promise.all(clicks)
      expect(
        new Set(answers.map((a) => a.status === 'reserved' && a.reservation.orderNo)).size,
      ).toBe(1)
      expect((await stock.numbers(REF)).available).toBe(9)
      await w.sound()
    })

    it('unequal clicks go one after the other: the first takes, the others are refused', async () => {
      const w = world()
      const stock = await w.sale()
      const answers = await Promise.all(
        [1, 2, 3].map((quantity) => stock.deduct(w.request('u1', { quantity }))),
      )
      expect(answers.map((a) => a.status)).toEqual(['reserved', 'already-bought', 'already-bought'])
      expect((await stock.numbers(REF)).frozen).toBe(1)
      await w.sound()
    })

    it('who never asks twice alike does not fill the waiting room for the others', async () => {
      const w = world()
      const stock = await w.sale({}, { maxWaiting: 64 })
      const greedy = Array.from({ length: 500 }, (_, i) =>
        stock.deduct(w.request('greedy', { payload: i })),
      )
      const other = await stock.deduct(w.request('u1'))
      expect(other).toMatchObject({ status: 'reserved' })
      const told = (await Promise.all(greedy)).map((a) => a.status)
      expect(told.filter((s) => s === 'busy').length).toBeGreaterThan(480)
      expect(told[0]).toBe('reserved')
      await w.sound()
    })
  })

  describe('tokens', () => {
    it('F4 no token, no deduction; a revoked one neither', async () => {
      const w = world()
      const stock = await w.sale({ tokens: 'required' })
      await w.unchanged(async () => {
        expect(await stock.deduct(w.request('u1'))).toEqual({ status: 'token-missing' })
        const stored = { ...T1, stored: true } as const
        expect(await stock.deduct(w.request('u1', { token: stored }))).toEqual({
          status: 'token-revoked',
        })
      })
      await stock.revokeTokens('a1', 3)
      const with_ = (issue: number) => stock.deduct(w.request('u1', { token: { ...T1, issue } }))
      expect(await with_(2)).toEqual({ status: 'token-revoked' })
      await stock.revokeTokens('a1', 2)
      expect(await with_(2)).toEqual({ status: 'token-revoked' })
      // Issued after a raise that this Redis has not heard of (yet, or any more): the durable row knows better.
      expect(await with_(4)).toMatchObject({ status: 'reserved' })
      await w.sound()
    })

    it('S5 a stored token is looked for in the same step', async () => {
      const w = world()
      const stock = await w.sale({ tokens: 'required' })
      await w.redis.set('seckill:token:{a1}:t1', 'x', 'PX', 60_000)
      const stored = { ...T1, stored: true } as const
      const both = await Promise.all([
        stock.deduct(w.request('u0', { token: { tokenId: 't0', issue: 1 } })),
        stock.deduct(w.request('u1', { token: stored })),
        stock.deduct(w.request('u2', { token: { ...stored, tokenId: 't2' } })),
      ])
      expect(both.map((a) => a.status)).toEqual(['reserved', 'reserved', 'token-revoked'])
      await w.sound()
    })

    it('C07f a release hands the token back', async () => {
      const w = world()
      const stock = await w.sale({ tokens: 'required' })
      const first = await stock.deduct(w.request('u1', { token: T1 }))
      if (first.status !== 'reserved') throw new Error(first.status)
      const { reservation } = first
      await stock.move([{ to: 'released', reservation, reason: 'unpaid' }])
      const second = await stock.deduct(w.request('u1', { token: T1 }))
      expect(second).toMatchObject({ status: 'reserved', replayed: false })
      await w.sound()
    })
  })

  describe('the watermark', () => {
    async function reserve(w: World, stock: StockBucket, names: readonly string[]) {
      const answers = await Promise.all(names.map((name) => stock.deduct(w.request(name))))
      return answers.map((a) => a.status)
    }

    it('F7 admits up to high exactly, also within one batch, and a refusal writes nothing', async () => {
      const w = world()
      const stock = await w.sale({ watermark: 4 })
      const six = await reserve(w, stock, ['u1', 'u2', 'u3', 'u4', 'u5', 'u6'])
      expect(six.filter((s) => s === 'reserved')).toHaveLength(4)
      expect(six.slice(4)).toEqual(['busy', 'busy'])
      await w.unchanged(async () =>
        expect(await stock.deduct(w.request('u7'))).toEqual({
          status: 'busy',
          cause: 'watermark',
          retryAfterMs: 1000,
        }),
      )
      expect((await stock.numbers(REF)).waiting).toBe(4)
      await w.sound()
    })

    it('F7 is left at low, inclusive, and not before', async () => {
      const w = world()
      const stock = await w.sale({ watermark: 4 })
      await reserve(w, stock, ['u1', 'u2', 'u3', 'u4'])
      const reservations = w.batches.flatMap((b) => b.reservations)
      await stock.move([{ to: 'confirmed', reservation: reservations[0] as never }])
      expect(await reserve(w, stock, ['u5'])).toEqual(['busy'])
      // A repeated confirm settles nothing more.
      await stock.move([{ to: 'confirmed', reservation: reservations[0] as never }])
      expect(await reserve(w, stock, ['u5'])).toEqual(['busy'])
      await stock.move([
        { to: 'released', reservation: reservations[1] as never, reason: 'unpaid' },
      ])
      expect((await stock.numbers(REF)).waiting).toBe(2)
      expect(await reserve(w, stock, ['u5', 'u6', 'u7'])).toEqual(['reserved', 'reserved', 'busy'])
      await w.sound()
    })

    it('F7 a low of 1 is reached too', async () => {
      const w = world()
      const stock = await w.sale({ watermark: 2 })
      await reserve(w, stock, ['u1', 'u2'])
      expect(await reserve(w, stock, ['u3'])).toEqual(['busy'])
      const [first] = w.batches.flatMap((b) => b.reservations)
      await stock.move([{ to: 'paid', reservation: first as never }])
      expect(await reserve(w, stock, ['u3'])).toEqual(['reserved'])
      await w.sound()
    })
  })

  describe('the message', () => {
    it('is what the winners asked for at the time, whatever becomes of their objects', async () => {
      const w = world()
      const stock = await w.sale()
      const payload: Record<string, unknown> = { note: '秒杀🔥 "x" \\ \u2028' }
      const cycle: unknown[] = []
      const pending = [
        stock.deduct(w.request('u1', { payload: payload as never })),
        stock.deduct(w.request('u2', { payload: cycle as never })),
        stock.deduct(w.request('u3')),
      ]
      payload['note'] = 1n
      cycle.push(cycle)
      const answers = await Promise.all(pending)
      expect(answers.map((a) => a.status)).toEqual(['reserved', 'reserved', 'reserved'])
      const sent = w.batches.flatMap((b) => b.reservations)
      expect(sent[0]?.payload).toEqual({ note: '秒杀🔥 "x" \\ \u2028' })
      expect(sent[1]?.payload).toEqual([])
      await w.redis.zadd(KEYS.owed, '1', w.batches[0]?.batchId as string)
      const [owed] = await stock.takeOwed('a1', { leaseMs: 1_000, limit: 10 })
      expect(owed?.batch).toEqual(w.batches[0])
      await w.sound()
    })

    it('stays under 256 KiB, also with payloads of characters of three bytes', async () => {
      const w = world()
      const stock = await w.sale({ skus: [sku(400)] })
      const payload = '秒'.repeat(340)
      await Promise.all(
        Array.from({ length: 300 }, (_, i) => stock.deduct(w.request(`u${i}`, { payload }))),
      )
      const messages = await w.redis.hgetall(KEYS.batch)
      for (const [id, message] of Object.entries(messages))
        expect(Buffer.byteLength(message), id).toBeLessThanOrEqual(262_144)
      await w.sound()
    })
  })

  it('F11 stock that nobody owes a message for is taken the same, and records none', async () => {
    const w = world()
    const stock = await w.sale({}, { deliver: 'nothing-owed' })
    expect(await stock.deduct(w.request('u1'))).toMatchObject({ status: 'reserved' })
    expect((await stock.numbers(REF)).owed).toBe(0)
    expect(Object.keys(await w.redis.hgetall(KEYS.batch))).toEqual([' '])
    await w.sound({ watched: false })
  })

  it('C11 64-bit ids keep every digit, as BigInt and as string', async () => {
    const w = world()
    const stock = await w.sale()
    const a = await stock.deduct({ ...w.request(''), userId: 1849302938475629013n })
    const b = await stock.deduct(
      w.request('1849302938475629014', { orderNo: '9223372036854775807' }),
    )
    expect([a, b].map((x) => x.status === 'reserved' && x.reservation.userId)).toEqual([
      '1849302938475629013',
      '1849302938475629014',
    ])
    expect(await stock.reservation(REF, 1849302938475629014n)).toMatchObject({
      userId: '1849302938475629014',
      orderNo: '9223372036854775807',
    })
    await w.redis.zadd(KEYS.owed, '1', w.batches[1]?.batchId as string)
    const owed = await stock.takeOwed('a1', { leaseMs: 1_000, limit: 10 })
    expect(owed[0]?.batch.reservations[0]).toMatchObject({
      userId: '1849302938475629014',
      orderNo: '9223372036854775807',
    })
    await w.sound()
  })

  it('C02 S of the largest size is exact', async () => {
    const w = world()
    const stock = await w.sale({ skus: [sku(1_000_000_000)] })
    await stock.deduct(w.request('u1'))
    expect((await stock.numbers(REF)).available).toBe(999_999_999)
    await w.sound()
    expect(await stock.warmUp(w.activity, numbersOf(w.activity))).toEqual({
      status: 'already-warm',
    })
  })
}
