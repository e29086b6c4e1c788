import type { Knex } from 'knex'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { IdempotencyGuard } from '../../src/idempotency/idempotency-guard.js'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { idempotency } from '../suites/idempotency.js'

idempotency('sqlite')

describe('what the host gets wrong', () => {
  let db: FreshDatabase
  let knex: Knex
  let guard: IdempotencyGuard
  beforeAll(async () => {
    db = await freshDatabase('sqlite')
    knex = db.knex
    guard = new IdempotencyGuard({ knex })
  })
  afterAll(() => db.destroy())

  // The table is not there: whatever got as far as the database would say DB_UNAVAILABLE.
  const never = async () => {
    throw new Error('was run')
  }

  it.each([
    ['an empty key', '', 'f'],
    ['a key of 129 characters', 'k'.repeat(129), 'f'],
    ['a key of 10 kB', 'k'.repeat(10_000), 'f'],
    ['a key with a blank', 'a b', 'f'],
    ['a key that ends in a blank', 'a ', 'f'],
    ['a key that ends in a line feed', 'a\n', 'f'],
    ['a key in Chinese', '秒杀', 'f'],
    ['a key with NUL', 'a\0', 'f'],
    ['a number as key', 7, 'f'],
    ['no key', undefined, 'f'],
    ['an array as key', ['k'], 'f'],
    ['an empty fingerprint', 'k', ''],
    ['no fingerprint', 'k', undefined],
    ['an object as fingerprint', 'k', {}],
    ['a fingerprint over 1,000,000 characters', 'k', 'f'.repeat(1_000_001)],
  ])('%s is BAD_INPUT, before any I/O', async (_, key, print) => {
    const [k, f] = [key, print] as [string, string]
    await expect(
      knex.transaction((trx) => guard.inTransaction(trx, k, f, never)),
    ).rejects.toMatchObject({ code: 'BAD_INPUT' })
    await expect(guard.withLease(k, f, { leaseMs: 1_000 }, never)).rejects.toMatchObject({
      code: 'BAD_INPUT',
    })
  })

  it.each([99, 86_400_001, 0, -1, 100.5, Number.NaN, '1000', 1000n, undefined])(
    'a lease of %s ms is BAD_INPUT',
    async (leaseMs) => {
      const lease = { leaseMs } as { leaseMs: number }
      await expect(guard.withLease('k', 'f', lease, never)).rejects.toMatchObject({
        code: 'BAD_INPUT',
      })
    },
  )

  it('work that is no function, and a lease without options, are BAD_INPUT', async () => {
    await expect(guard.withLease('k', 'f', undefined as never, never)).rejects.toMatchObject({
      code: 'BAD_INPUT',
    })
    await expect(guard.withLease('k', 'f', { leaseMs: 1_000 }, 5 as never)).rejects.toMatchObject({
      code: 'BAD_INPUT',
    })
  })

  it('anything but an open transaction is BAD_INPUT: its record would not commit with the work', async () => {
    const ended = await knex.transaction()
    await ended.commit()
    for (const trx of [knex, ended, undefined, null, {}])
      await expect(guard.inTransaction(trx as never, 'k', 'f', never)).rejects.toMatchObject({
        code: 'BAD_INPUT',
      })
  })

  it.each([59_999, 0, -1, Number.NaN, '3600000', undefined])(
    'purge(%s) is BAD_INPUT',
    async (ms) => {
      await expect(guard.purge(ms as number)).rejects.toMatchObject({ code: 'BAD_INPUT' })
    },
  )

  const oracle = { client: { dialect: 'oracle' } }
  it.each([
    ['nothing', () => undefined],
    ['no knex', () => ({})],
    ['another dialect', () => ({ knex: oracle })],
    ['a table that needs quoting', () => ({ knex, table: 'a-b' })],
    ['a table with SQL in it', () => ({ knex, table: 'a; DROP TABLE b' })],
    ['a table of 51 characters', () => ({ knex, table: 't'.repeat(51) })],
    ['an empty table', () => ({ knex, table: '' })],
    ['a negative lock wait', () => ({ knex, lockWaitMs: -1 })],
    ['a lock wait over a minute', () => ({ knex, lockWaitMs: 60_001 })],
    ['a lock wait as text', () => ({ knex, lockWaitMs: '1000' })],
  ])('options: %s is BAD_OPTION', (_, options) => {
    expect(() => new IdempotencyGuard(options() as never)).toThrow(
      expect.objectContaining({ code: 'BAD_OPTION' }),
    )
  })

  it('takes the borders of its options, and does no I/O in the constructor', () => {
    for (const lockWaitMs of [0, 60_000])
      new IdempotencyGuard({ knex, lockWaitMs, table: 't'.repeat(50) })
  })
})
