import { setTimeout as sleep } from 'node:timers/promises'
import type { Knex } from 'knex'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { IdempotencyGuard } from '../../src/idempotency/idempotency-guard.js'
import { type FreshDatabase, freshDatabase, openDatabase } from '../harness/databases.js'
import { TcpProxy } from '../harness/tcp-proxy.js'

const FIRST_FAILS = new Error('the first fails')

/** Guards that share nothing but the database stand for processes; `idempotency-crash.test.ts` has real ones. */
describe.each(['mariadb', 'postgres'] as const)(
  'IdempotencyGuard between processes on %s',
  (kind) => {
    let db: FreshDatabase
    let knex: Knex
    let runs: number
    beforeAll(async () => {
      db = await freshDatabase(kind, { poolMax: 24 })
      knex = db.knex
      await IdempotencyGuard.migrate(knex)
      await knex.schema.createTable('effects', (t) => {
        t.increments('id')
        t.string('what', 64).notNullable()
      })
    })
    afterAll(() => db.destroy())
    beforeEach(async () => {
      await knex('seckill_idempotency').delete()
      await knex('effects').delete()
      runs = 0
    })

    const guard = (lockWaitMs = 1_000) => new IdempotencyGuard({ knex, lockWaitMs })
    const effects = () => knex('effects').orderBy('id').pluck('what')
    const order = (g: IdempotencyGuard, work: () => Promise<number>, k = knex) =>
      k.transaction((trx) =>
        g.inTransaction(trx, 'k1', 'f', async () => {
          runs++
          await trx('effects').insert({ what: 'order' })
          return work()
        }),
      )

    it('C09a ten processes at once: one runs, the others wait and get its value', async () => {
      const all = await Promise.all(
        Array.from({ length: 10 }, () => order(guard(5_000), async () => sleep(100, 7))),
      )
      expect(all.filter((once) => once.status === 'done' && !once.replayed)).toHaveLength(1)
      expect(all.filter((once) => once.status === 'done' && once.replayed)).toHaveLength(9)
      expect(runs).toBe(1)
    })

    it('C09a who waits longer than lockWaitMs hears in-progress, and his transaction is as it was', async () => {
      const lockWait = async (trx: Knex.Transaction) =>
        kind === 'mariadb'
          ? (await trx.raw('SELECT @@SESSION.innodb_lock_wait_timeout AS s'))[0][0].s
          : (await trx.raw('SHOW lock_timeout')).rows[0].lock_timeout
      const first = order(guard(), async () => sleep(3_000, 7))
      await sleep(100)
      const startedAt = performance.now()
      await knex.transaction(async (trx) => {
        const before = await lockWait(trx)
        await trx('effects').insert({ what: 'before' })
        expect(await guard(300).inTransaction(trx, 'k1', 'f', async () => ++runs)).toEqual({
          status: 'in-progress',
        })
        const waited = performance.now() - startedAt
        expect(waited).toBeGreaterThan(250)
        expect(waited).toBeLessThan(2_500)
        await trx('effects').insert({ what: 'after' })
        expect(await lockWait(trx)).toBe(before)
      })
      expect(await effects()).toEqual(expect.arrayContaining(['before', 'after']))
      expect(await first).toMatchObject({ value: 7, replayed: false })
      expect(runs).toBe(1)
    })

    it('C09a a waiter runs the work when the first rolls back', async () => {
      const first = order(guard(), async () => {
        await sleep(150)
        throw FIRST_FAILS
      })
      await sleep(50)
      const second = order(guard(), async () => 2)
      await expect(first).rejects.toThrow(FIRST_FAILS)
      expect(await second).toMatchObject({ value: 2, replayed: false })
      expect(await effects()).toEqual(['order'])
    })

    it('C16 when the first of many rolls back, one runs, and whoever lost a deadlock may repeat', async () => {
      const attempt = () =>
        order(guard(), async () => {
          await sleep(30)
          if (runs === 1) throw FIRST_FAILS
          return 2
        })
      const all = await Promise.allSettled(Array.from({ length: 8 }, attempt))
      const failed = all.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
      for (const reason of failed)
        expect(reason).toSatisfy((e) => e === FIRST_FAILS || e.code === 'DB_BUSY')
      expect(await attempt()).toMatchObject({ value: 2, replayed: true })
      expect([runs, await effects()]).toEqual([2, ['order']])
    })

    it('C16 in one process nobody loses a deadlock then', async () => {
      const one = guard(5_000)
      const all = await Promise.allSettled(
        Array.from({ length: 20 }, () =>
          order(one, async () => {
            await sleep(30)
            if (runs === 1) throw FIRST_FAILS
            return 2
          }),
        ),
      )
      expect(all.filter((each) => each.status === 'rejected')).toHaveLength(1)
      expect([runs, await effects()]).toEqual([2, ['order']])
    })

    it('C16 a transaction with an older view repeats as a whole, or replays', async () => {
      const late = () =>
        knex.transaction(
          async (trx) => {
            await trx('effects').select() // its view is of now
            await order(guard(), async () => 1)
            return guard().inTransaction(trx, 'k1', 'f', async () => ++runs)
          },
          { isolationLevel: 'repeatable read' },
        )
      const outcome = await late().catch((error: unknown) => error)
      if (kind === 'mariadb') expect(outcome).toMatchObject({ value: 1, replayed: true })
      else expect(outcome).toMatchObject({ code: 'DB_BUSY' })
      expect(await order(guard(), async () => 3)).toMatchObject({ value: 1, replayed: true })
      expect(runs).toBe(1)
    })

    it('C16 a connection killed in mid-work leaves nothing, and the key is free at once', async () => {
      const one = guard()
      const killed = knex.transaction((trx) =>
        one.inTransaction(trx, 'k1', 'f', async () => {
          await trx('effects').insert({ what: 'half' })
          const mine = kind === 'mariadb' ? 'CONNECTION_ID()' : 'pg_backend_pid()'
          const answer = await trx.raw(`SELECT ${mine} AS id`)
          const id = Number((kind === 'mariadb' ? answer[0] : answer.rows)[0].id)
          await knex.raw(kind === 'mariadb' ? `KILL ${id}` : `SELECT pg_terminate_backend(${id})`)
          await trx('effects').insert({ what: 'more' })
          return 1
        }),
      )
      await expect(killed).rejects.toThrow()
      expect(await order(one, async () => 2)).toMatchObject({ value: 2, replayed: false })
      expect(await effects()).toEqual(['order'])
    })

    it('C16 when the answer to COMMIT is lost, the repeated transaction finds out', async () => {
      if (db.address.kind === 'sqlite') throw new Error('needs a server')
      const proxy = await TcpProxy.to(db.address.port)
      const far = openDatabase(db.address, { port: proxy.port })
      try {
        const one = new IdempotencyGuard({ knex: far })
        proxy.swallowReply({ matching: /COMMIT/i })
        const lost = order(one, async () => 1, far)
        await expect(lost).rejects.toThrow()
        expect(proxy.counts.swallowed).toBe(1)
        expect(await order(one, async () => 2, far)).toMatchObject({ value: 1, replayed: true })
        expect([runs, await effects()]).toEqual([1, ['order']])
      } finally {
        await far.destroy()
        await proxy.close()
      }
    })

    it('C19 a lease that gets no connection is DB_BUSY within the limit, and its work is not run', async () => {
      const tight = openDatabase(db.address, { poolMax: 1 })
      tight.client.pool.acquireTimeoutMillis = 200
      try {
        const one = new IdempotencyGuard({ knex: tight })
        const trx = await tight.transaction()
        const lease = one.withLease('k1', 'f', { leaseMs: 1_000 }, async () => ++runs)
        await expect(lease).rejects.toMatchObject({ code: 'DB_BUSY' })
        await trx.rollback()
        expect(runs).toBe(0)
        const again = await one.withLease('k1', 'f', { leaseMs: 1_000 }, async () => ++runs)
        expect(again).toMatchObject({ value: 1 })
      } finally {
        await tight.destroy()
      }
    })

    it('C17 a connection that became read-only is replaced', async () => {
      const tight = openDatabase(db.address, { poolMax: 1 })
      try {
        await tight.raw(
          kind === 'mariadb'
            ? 'SET SESSION TRANSACTION READ ONLY'
            : 'SET SESSION default_transaction_read_only = on',
        )
        const one = new IdempotencyGuard({ knex: tight })
        const lease = () => one.withLease('k1', 'f', { leaseMs: 1_000 }, async () => ++runs)
        await expect(lease()).rejects.toMatchObject({ code: 'DB_UNAVAILABLE' })
        expect(await lease()).toMatchObject({ value: 1, replayed: false })
      } finally {
        await tight.destroy()
      }
    })

    it('a purge and a hundred calls at once leave one execution of each', async () => {
      const seen = new Map<string, number>()
      const calls = Array.from({ length: 100 }, (_, i) => {
        const key = `p${i % 20}`
        return knex.transaction((trx) =>
          guard().inTransaction(trx, key, 'f', async () => {
            seen.set(key, (seen.get(key) ?? 0) + 1)
            return 1
          }),
        )
      })
      const purges = Array.from({ length: 10 }, () => guard().purge(60_000))
      await Promise.all([...calls, ...purges])
      expect([...seen.values()]).toEqual(Array.from({ length: 20 }, () => 1))
    })
  },
)
