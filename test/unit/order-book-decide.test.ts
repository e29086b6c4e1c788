import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Reservation } from '../../src/core/types.js'
import { decide, type Situation } from '../../src/knex/order/decide.js'
import { liveKeyOf } from '../../src/knex/order/rows.js'
import { commitMayHoldAfter, troubleOf, withoutStatement } from '../../src/knex/sql/troubles.js'

const stock = (available: number) => ({
  activityId: 'a',
  skuId: 's',
  version: 'v',
  total: 100,
  available,
  rowVersion: 0,
  priceMinor: 5,
  currency: 'CNY',
  payWithinMs: 1_000,
  maxPerOrder: 4,
})

const reservation = (orderNo: string, userId: string, quantity: number, version: string) =>
  ({
    orderNo,
    userId,
    quantity,
    version,
    activityId: 'a',
    skuId: 's',
    bucket: 0,
    reservedAt: 1.6e12,
  }) satisfies Reservation

describe('decide', () => {
  it('D1 D2: never takes more than there is, nor two orders of a buyer, nor leaves out what fits', () => {
    const arbitrary = fc.record({
      available: fc.integer({ min: 0, max: 8 }),
      holders: fc.subarray(['u0', 'u1', 'u2', 'u3']),
      standing: fc.subarray(['n0', 'n1', 'n2']),
      toClose: fc.subarray(['n3', 'n4']),
      orders: fc.array(
        fc.record({
          user: fc.integer({ min: 0, max: 5 }),
          quantity: fc.integer({ min: 1, max: 5 }),
          version: fc.constantFrom('v', 'v', 'v', 'w'),
        }),
        { maxLength: 12 },
      ),
    })
    fc.assert(
      fc.property(arbitrary, ({ available, holders, standing, toClose, orders }) => {
        const reservations = orders.map((o, i) =>
          reservation(`n${i}`, `u${o.user}`, o.quantity, o.version),
        )
        const situation: Situation = {
          now: 7,
          stocks: new Map([['a|s', stock(available)]]),
          byNumber: new Map(
            standing.map((orderNo) => [
              orderNo,
              { orderNo, userId: 'x', status: 'closed' as const, reason: 'r' },
            ]),
          ),
          holders: new Map(holders.map((u) => [`a|s|${u}`, 'held'])),
          stopped: new Set(),
        }
        const closing = new Map(toClose.map((n) => [n, 'no']))
        const decisions = decide(reservations, situation, {
          onePer: 'activity+sku',
          toClose: closing,
        })
        expect(decisions).toHaveLength(reservations.length)
        let left = available
        const bought = new Set(holders)
        for (const [i, decision] of decisions.entries()) {
          const r = reservations[i] as Reservation
          const fits =
            !standing.includes(r.orderNo) &&
            !closing.has(r.orderNo) &&
            !bought.has(r.userId) &&
            r.version === 'v' &&
            r.quantity <= 4 &&
            r.quantity <= left
          expect(decision.kind === 'take').toBe(fits)
          if (decision.kind === 'take') {
            expect(decision.order).toMatchObject({ amountMinor: r.quantity * 5, payBy: 1_007 })
            left -= r.quantity
            bought.add(r.userId)
          }
          if (decision.kind === 'standing') expect(standing).toContain(r.orderNo)
          if (decision.kind === 'close') expect(decision.reason).toBe('no')
        }
        expect(left).toBeGreaterThanOrEqual(0)
      }),
      { numRuns: 500 },
    )
  })

  it('D2: live keys of two kinds, or of ids cut elsewhere, are never equal', () => {
    const of = (activityId: string, skuId: string, userId: string) => ({
      activityId,
      skuId,
      userId,
    })
    const keys = [
      liveKeyOf(of('a', 'b', 'c'), 'activity+sku'),
      liveKeyOf(of('a', 'bc', ''), 'activity+sku'),
      liveKeyOf(of('ab', 'c', ''), 'activity+sku'),
      liveKeyOf(of('a', 'b', 'c'), 'activity'),
    ]
    expect(new Set(keys).size).toBe(keys.length)
  })
})

describe('troubleOf', () => {
  it.each([
    [{ errno: 1062, code: 'ER_DUP_ENTRY' }, 'duplicate'],
    [{ code: '23505' }, 'duplicate'],
    [{ code: 'SQLITE_CONSTRAINT_PRIMARYKEY' }, 'duplicate'],
    [{ code: 'SQLITE_CONSTRAINT', message: 'UNIQUE constraint failed: t.a' }, 'duplicate'],
    [{ code: 'SQLITE_CONSTRAINT', message: 'CHECK constraint failed' }, 'other'],
    [{ errno: 1213 }, 'retry'],
    [{ errno: 1205 }, 'retry'],
    [{ code: '40P01' }, 'retry'],
    [{ code: '40001' }, 'retry'],
    [{ code: '55P03' }, 'retry'],
    [{ code: '57014' }, 'retry'],
    [{ code: 'SQLITE_BUSY_SNAPSHOT' }, 'retry'],
    [{ errno: 1290 }, 'read-only'],
    [{ errno: 1792 }, 'read-only'],
    [{ code: '25006' }, 'read-only'],
    [{ code: 'SQLITE_READONLY' }, 'read-only'],
    [{ code: 'ECONNRESET', errno: -104 }, 'connection'],
    [{ code: 'PROTOCOL_CONNECTION_LOST', fatal: true }, 'connection'],
    [{ code: '08006' }, 'connection'],
    [{ code: '57P01' }, 'connection'],
    [new Error('wrapped', { cause: { errno: 1213 } }), 'retry'],
    [{ errno: 1406, code: 'ER_DATA_TOO_LONG' }, 'other'],
    [{ code: '22001' }, 'other'],
    [{ code: '23502' }, 'other'],
    [new Error('Deadlock found'), 'other'],
    ['text', 'other'],
    [null, 'other'],
  ])('C16 C17 C18: %j is %s', (error, trouble) => {
    expect(troubleOf(error)).toBe(trouble)
  })

  it('ends on a cause that goes in circles', () => {
    const error: Error & { cause?: unknown } = new Error('a')
    error.cause = error
    expect(troubleOf(error)).toBe('other')
  })

  it.each([
    [{ errno: 1213 }, false],
    [{ errno: 1290 }, false],
    [{ code: '40001' }, false],
    [{ code: '23503' }, false],
    [{ code: 'SQLITE_BUSY' }, false],
    [{ errno: 1317 }, true],
    [{ code: '57P01' }, true],
    [{ code: 'ECONNRESET', errno: -104 }, true],
    [new Error('Connection terminated unexpectedly'), true],
  ])('C16: after %j at COMMIT the transaction may hold: %s', (error, holds) => {
    expect(commitMayHoldAfter(error)).toBe(holds)
  })

  it('O8: the error that is passed on carries no buyer’s data', () => {
    const error = Object.assign(new Error("insert … values ('u1', 'secret') - deadlock"), {
      code: '40P01',
      sql: "insert … 'secret'",
    })
    const plain = withoutStatement(error)
    expect(plain).toMatchObject({ message: 'deadlock', code: '40P01' })
    expect(JSON.stringify({ ...plain, m: plain.message, s: plain.stack })).not.toContain('secret')
  })
})
