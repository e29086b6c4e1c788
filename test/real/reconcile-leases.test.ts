import { setTimeout as sleep } from 'node:timers/promises'
import { KnexLeases, KnexOrderBook } from 'flash-sale-kit/knex'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DATABASES, type FreshDatabase, freshDatabase, openDatabase } from '../harness/databases.js'

describe.each(DATABASES)('KnexLeases on %s', (kind) => {
  let db: FreshDatabase
  let leases: KnexLeases
  beforeAll(async () => {
    db = await freshDatabase(kind)
    await KnexOrderBook.migrate(db.knex)
    leases = new KnexLeases({ knex: db.knex })
  })
  afterAll(() => db?.destroy())

  test('R1: one holder at a time, and the fence rises with each', async () => {
    const first = await leases.take('one', 60_000)
    expect(first?.fence).toBe(1)
    expect(await leases.take('one', 60_000)).toBeNull()
    await first?.release()
    const second = await leases.take('one', 60_000)
    expect(second?.fence).toBe(2)
    expect((await leases.take('another', 60_000))?.fence).toBe(1)
  })

  test('R1: a lost lease is neither renewed nor given back', async () => {
    const late = await leases.take('late', 20)
    await sleep(50)
    const heir = await leases.take('late', 60_000)
    expect(await late?.renew(60_000)).toBe(false)
    await late?.release()
    expect(await leases.take('late', 60_000)).toBeNull()
    expect(await heir?.renew(60_000)).toBe(true)
  })

  test('R1: one that ran out is lost though nobody took it, one given back too', async () => {
    const short = await leases.take('short', 1)
    await sleep(20)
    expect(await short?.renew(60_000)).toBe(false)
    const given = await leases.take('given', 60_000)
    await given?.release()
    await given?.release()
    expect(await given?.renew(60_000)).toBe(false)
  })

  test('R1: a renewed lease lasts', async () => {
    const lease = await leases.take('renewed', 30_000)
    const until = async () =>
      Number((await db.knex('seckill_lease').where({ name: 'renewed' }).first()).until_at)
    const before = await until()
    expect(await lease?.renew(60_000)).toBe(true)
    expect(await until()).toBeGreaterThanOrEqual(before + 30_000)
    expect(await leases.take('renewed', 60_000)).toBeNull()
  })

  test('R1: of many who ask at once one gets it, whoever held it before', async () => {
    const other = openDatabase(db.address)
    try {
      const askers = [leases, new KnexLeases({ knex: other })]
      for (const fence of [1, 2]) {
        const got = await Promise.all(
          Array.from({ length: 12 }, (_, i) => askers[i % 2]?.take('crowd', 60_000)),
        )
        const held = got.filter((lease) => lease !== null)
        expect(held.map((lease) => lease?.fence)).toEqual([fence])
        await held[0]?.release()
      }
    } finally {
      await other.destroy()
    }
  })

  test('a bad name or time is refused before anything is written', async () => {
    const big = 10n as unknown as number
    for (const [name, ms] of [
      ['', 1_000],
      ['x'.repeat(201), 1_000],
      [7 as unknown as string, 1_000],
      ['bad', 0],
      ['bad', 1.5],
      ['bad', Number.NaN],
      ['bad', big],
    ] as const)
      await expect(leases.take(name, ms)).rejects.toMatchObject({ code: 'BAD_INPUT' })
    expect(await db.knex('seckill_lease').where({ name: 'bad' })).toEqual([])
    const lease = await leases.take('x'.repeat(200), 60_000)
    await expect(lease?.renew(big)).rejects.toMatchObject({ code: 'BAD_INPUT' })
  })
})
