import type { Knex } from 'knex'
import { describe, expect, it } from 'vitest'
import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from '../../src/knex/index.js'
import { openDatabase } from '../harness/databases.js'
import { AUDIT, type Sale, useKit } from '../suites/order-book/kit.js'

/** Each method of the three classes as one call that works, on any pool. */
function everyMethod(knex: Knex, sale: Sale, acquireTimeoutMs: number) {
  const book = new KnexOrderBook({ knex, acquireTimeoutMs })
  const control = new KnexActivityControl({ knex, acquireTimeoutMs })
  const store = new KnexActivityStore({ knex, acquireTimeoutMs })
  let n = 0
  const one = () => sale.reservations(1)
  const drain = async () => {
    for await (const _ of book.snapshot(sale.ref())) break
  }
  const calls: Readonly<Record<string, () => Promise<unknown>>> = {
    prepare: () => book.prepare(sale.activity),
    confirm: () => book.confirm(one()),
    closeUnbooked: () => book.closeUnbooked(one(), 'lost'),
    closeUnpaid: () => book.closeUnpaid([sale.reservation('x').orderNo], 'unpaid'),
    buy: () => book.buy(sale.reservation(`b${n++}`)),
    find: () => book.find(['none']),
    findByBuyer: () => book.findByBuyer(sale.ref(), 'u1'),
    numbers: () => book.numbers(sale.ref()),
    snapshot: drain,
    topUp: () =>
      book.topUp(sale.ref(), 1, `${sale.activityId}-${knex.client.pool.max}-${n++}`, AUDIT),
    takeReleases: () => book.takeReleases({ limit: 1, leaseMs: 1_000 }),
    released: () => book.released(['none']),
    overdue: () => book.overdue({ limit: 1 }),
    'control.read': () => control.read(sale.activityId),
    'control.set': () => control.set(sale.activityId, 'open', AUDIT),
    'control.revokeTokens': () => control.revokeTokens(sale.activityId, AUDIT),
    'store.load': () => store.load(sale.activityId),
    'store.live': () => store.live(),
    'store.save': () => store.save(sale.activity),
    'store.retire': () => store.retire(sale.activityId),
  }
  return calls
}

for (const kind of ['mariadb', 'mysql', 'postgres'] as const)
  describe(`small pools on ${kind}`, () => {
    const kit = useKit(kind)

    for (const poolMax of [1, 2])
      it(`C19: every method, 50 at once, does with ${poolMax} connection(s): none takes a second`, async () => {
        const sale = await kit.sale({ units: 1_000, open: true })
        const knex = openDatabase(kit.db.address, { poolMax })
        try {
          const calls = Object.values(everyMethod(knex, sale, 20_000))
          const mixed = Array.from(
            { length: 50 },
            (_, i) => calls[i % calls.length] as () => unknown,
          )
          await Promise.all(mixed.map((call) => call()))
          for (const call of calls) await Promise.all(Array.from({ length: 8 }, () => call()))
        } finally {
          await knex.destroy()
        }
      })

    it('C19: inside a caller’s transaction that holds the last connection: DB_BUSY in time, then well again', async () => {
      const sale = await kit.sale({ units: 1_000, open: true })
      const knex = openDatabase(kit.db.address, { poolMax: 2 })
      try {
        const calls = everyMethod(knex, sale, 200)
        const holders = [await knex.transaction(), await knex.transaction()]
        for (const [name, call] of Object.entries(calls)) {
          const startedAt = Date.now()
          await expect(call(), name).rejects.toMatchObject({ code: 'DB_BUSY' })
          expect(Date.now() - startedAt, name).toBeLessThan(1_000)
        }
        await Promise.allSettled(Array.from({ length: 50 }, () => calls['confirm']?.()))
        await Promise.all(holders.map((trx) => trx.rollback()))
        // Connections that came too late for their callers went straight back.
        for (const [name, call] of Object.entries(calls))
          await call().catch((e) => expect.fail(`${name}: ${e}`))
        expect(knex.client.pool.numUsed()).toBe(0)
      } finally {
        await knex.destroy()
      }
    })
  })
