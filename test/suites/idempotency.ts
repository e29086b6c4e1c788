import { setTimeout as sleep } from 'node:timers/promises'
import type { Knex } from 'knex'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Json } from '../../src/core/types.js'
import { IdempotencyGuard, type Once } from '../../src/idempotency/idempotency-guard.js'
import type { SqlRunner, SqlTransaction } from '../../src/idempotency/sql.js'
import { type DatabaseKind, type FreshDatabase, freshDatabase } from '../harness/databases.js'

/** knex and its transactions fit without a cast; the compiler is the test. */
const _fits = (knex: Knex, trx: Knex.Transaction): [SqlRunner, SqlRunner, SqlTransaction] => [
  knex,
  trx,
  trx,
]

const LEASE = { leaseMs: 5_000 }

/** The promises of IdempotencyGuard that hold on every database. */
export function idempotency(kind: DatabaseKind): void {
  describe(`IdempotencyGuard on ${kind}`, () => {
    let db: FreshDatabase
    let knex: Knex
    let guard: IdempotencyGuard
    let runs: number

    beforeAll(async () => {
      db = await freshDatabase(kind)
      knex = db.knex
      await Promise.all([IdempotencyGuard.migrate(knex), IdempotencyGuard.migrate(knex)])
      await knex.schema.createTable('effects', (t) => {
        t.increments('id')
        t.string('what', 128).notNullable()
      })
    })
    afterAll(() => db.destroy())
    beforeEach(async () => {
      await knex('seckill_idempotency').delete()
      await knex('effects').delete()
      guard = new IdempotencyGuard({ knex })
      runs = 0
    })

    const effects = async () => Number((await knex('effects').count({ n: '*' }))[0]?.['n'])
    const records = async () =>
      Number((await knex('seckill_idempotency').count({ n: '*' }))[0]?.['n'])

    /** The usual unit of work: one effect row in the caller's transaction. */
    function order<T extends Json>(
      key: string,
      value: T,
      o: { print?: string; ms?: number; guard?: IdempotencyGuard } = {},
    ): Promise<Once<T>> {
      return knex.transaction((trx) =>
        (o.guard ?? guard).inTransaction(trx, key, o.print ?? 'qty 1', async () => {
          runs++
          await trx('effects').insert({ what: key })
          if (o.ms) await sleep(o.ms)
          return value
        }),
      )
    }

    describe('inTransaction', () => {
      it('T3 runs the work once, and answers a duplicate with the earlier value', async () => {
        expect(await order('k1', { orderNo: 'o1' })).toEqual({
          status: 'done',
          value: { orderNo: 'o1' },
          replayed: false,
        })
        expect(await order('k1', { orderNo: 'o2' })).toEqual({
          status: 'done',
          value: { orderNo: 'o1' },
          replayed: true,
        })
        expect([runs, await effects(), await records()]).toEqual([1, 1, 1])
      })

      it('C09a of 100 calls at once one runs, the others get its value or in-progress', async () => {
        const all = await Promise.all(
          Array.from({ length: 100 }, (_, i) => order('k1', i, { ms: 100 })),
        )
        const done = all.filter((once) => once.status === 'done')
        expect(done.filter((once) => !once.replayed)).toHaveLength(1)
        expect(new Set(done.map((once) => once.value)).size).toBe(1)
        expect(all.filter((once) => once.status === 'key-reused')).toEqual([])
        expect([runs, await effects(), await records()]).toEqual([1, 1, 1])
      })

      it('C09b the same key for another request runs nothing', async () => {
        await order('k1', 1)
        expect(await order('k1', 2, { print: 'qty 2' })).toEqual({ status: 'key-reused' })
        expect([runs, await effects()]).toEqual([1, 1])
      })

      it('T3 C09d a throw leaves nothing, and the next call runs', async () => {
        const failing = knex.transaction((trx) =>
          guard.inTransaction(trx, 'k1', 'qty 1', async () => {
            await trx('effects').insert({ what: 'half' })
            throw new Error('the channel was busy')
          }),
        )
        await expect(failing).rejects.toThrow('the channel was busy')
        expect([await effects(), await records()]).toEqual([0, 0])
        expect(await order('k1', 2)).toMatchObject({ value: 2, replayed: false })
      })

      it('C09d a throw that the caller swallows leaves no record either', async () => {
        await knex.transaction(async (trx) => {
          const once = guard.inTransaction(trx, 'k1', 'qty 1', async () => {
            throw new Error('x')
          })
          await once.catch(() => {})
        })
        expect(await records()).toBe(0)
      })

      it('C09d a refusal that is returned is remembered like any value', async () => {
        const refusal = { status: 'sold-out' }
        await order('k1', refusal)
        expect(await order<Json>('k1', { status: 'confirmed' })).toEqual({
          status: 'done',
          value: refusal,
          replayed: true,
        })
      })

      it('a roll-back after the call takes the record with it', async () => {
        const rolledBack = knex.transaction(async (trx) => {
          await guard.inTransaction(trx, 'k1', 'qty 1', async () => 1)
          throw new Error('later')
        })
        await expect(rolledBack).rejects.toThrow('later')
        expect(await records()).toBe(0)
        expect(await order('k1', 2)).toMatchObject({ value: 2, replayed: false })
      })

      it('does not wait for its own transaction: there a second call is a replay', async () => {
        await knex.transaction(async (trx) => {
          const once = () => guard.inTransaction(trx, 'k1', 'qty 1', async () => ++runs)
          expect(await once()).toMatchObject({ value: 1, replayed: false })
          expect(await once()).toMatchObject({ value: 1, replayed: true })
          const inner = trx.transaction((nested) =>
            guard.inTransaction(nested, 'k1', 'qty 1', async () => ++runs),
          )
          expect(await inner).toMatchObject({ value: 1, replayed: true })
        })
        expect(runs).toBe(1)
      })

      it('in a savepoint that is rolled back leaves the key free for the same transaction', async () => {
        await knex.transaction(async (trx) => {
          const inner = trx.transaction(async (nested) => {
            await guard.inTransaction(nested, 'k1', 'qty 1', async () => 1)
            throw new Error('back to the savepoint')
          })
          await expect(inner).rejects.toThrow('savepoint')
          expect(await guard.inTransaction(trx, 'k1', 'qty 1', async () => 2)).toMatchObject({
            value: 2,
            replayed: false,
          })
        })
        expect(await order('k1', 3)).toMatchObject({ value: 2, replayed: true })
      })

      it('called from its own work answers in-progress when the time is up, and does no harm', async () => {
        const impatient = new IdempotencyGuard({ knex, lockWaitMs: 50 })
        const once = await knex.transaction((trx) =>
          impatient.inTransaction(trx, 'k1', 'qty 1', async () => {
            const inner = await impatient.inTransaction(trx, 'k1', 'qty 1', async () => 'inner')
            return inner.status
          }),
        )
        expect(once).toEqual({ status: 'done', value: 'in-progress', replayed: false })
      })

      it('C09g still runs the work once when a purge takes the record between two statements', async () => {
        await order('k1', 1)
        let purges = 0
        const meddled = (trx: Knex.Transaction) =>
          meddling(trx, async (sql, query, also) => {
            if (/^SELECT biz_key/.test(sql) && purges++ === 0)
              await also('DELETE FROM seckill_idempotency')
            return query()
          })
        const once = await knex.transaction((trx) =>
          guard.inTransaction(meddled(trx), 'k1', 'qty 1', async () => 2),
        )
        expect(purges).toBeGreaterThan(0)
        expect(once).toEqual({ status: 'done', value: 2, replayed: false })
        expect(await records()).toBe(1)
      })

      it.each(['returns', 'throws'])(
        'C16 work that %s after its transaction was lost stores nothing, and leaves records of others alone',
        async (ends) => {
          const outcome = await knex.transaction(async (trx) => {
            const once = guard.inTransaction(trx, 'k1', 'qty 1', async () => {
              // What a swallowed deadlock of MySQL amounts to: from here on each statement commits by itself.
              await trx.raw('ROLLBACK')
              const other = { biz_key: 'k1', fingerprint: 'f', fence: 0, lease_until: 0 }
              const done = { state: 'done', holder: 'other', result: '9', changed_at: 1 }
              await trx('seckill_idempotency').insert({ ...other, ...done })
              if (ends === 'throws') throw new Error('so it is')
              return 1
            })
            const caught = await once.catch((error: unknown) => error)
            if (kind === 'sqlite') await trx.raw('BEGIN') // it minds a COMMIT of nothing
            return caught
          })
          if (ends === 'throws') expect(outcome).toMatchObject({ message: 'so it is' })
          else expect(outcome).toMatchObject({ code: 'DB_BUSY' })
          expect(await knex('seckill_idempotency').pluck('result')).toEqual(['9'])
        },
      )

      it('work that ends the transaction itself is told, and its record is not taken for a result', async () => {
        const trx = await knex.transaction()
        const once = guard.inTransaction(trx, 'k1', 'qty 1', async () => {
          await trx.commit()
          return 1
        })
        await expect(once).rejects.toMatchObject({ code: 'DB_UNAVAILABLE' })
        await expect(order('k1', 2)).rejects.toMatchObject({ code: 'CORRUPT' })
        await expect(guard.withLease('k1', 'qty 1', LEASE, async () => 3)).rejects.toMatchObject({
          code: 'CORRUPT',
        })
      })
    })

    describe('withLease', () => {
      const lease = <T extends Json>(key: string, value: T, o: { ms?: number } = {}) =>
        guard.withLease(key, 'pay 100', LEASE, async () => {
          runs++
          if (o.ms) await sleep(o.ms)
          return value
        })
      /** As after a crash: the claim is there, nobody works on it, and its lease is over. */
      const lapse = () => knex('seckill_idempotency').update({ lease_until: 1 })

      it('C09a of 100 calls at once one runs, the others get its value', async () => {
        const all = await Promise.all(
          Array.from({ length: 100 }, (_, i) => lease('k1', i, { ms: 50 })),
        )
        expect(all.filter((once) => once.status === 'done' && !once.replayed)).toHaveLength(1)
        expect(all.every((once) => once.status !== 'key-reused')).toBe(true)
        expect(runs).toBe(1)
        expect(await lease('k1', -1)).toMatchObject({ status: 'done', replayed: true })
      })

      it('C09a two processes at once: one runs, the other hears in-progress at once', async () => {
        const other = new IdempotencyGuard({ knex })
        const first = lease('k1', 1, { ms: 500 })
        await sleep(50)
        const second = await other.withLease('k1', 'pay 100', LEASE, async () => ++runs)
        expect(second).toEqual({ status: 'in-progress' })
        expect(await first).toMatchObject({ value: 1 })
        expect(runs).toBe(1)
      })

      it('C09b the same key for another request runs nothing, also while the first is running or failed', async () => {
        const other = new IdempotencyGuard({ knex })
        const reused = () => other.withLease('k1', 'pay 200', LEASE, async () => ++runs)
        const first = lease('k1', 1, { ms: 500 })
        await sleep(50)
        expect(await reused()).toEqual({ status: 'key-reused' })
        await first
        expect(await reused()).toEqual({ status: 'key-reused' })
        await knex('seckill_idempotency').update({ state: 'running', result: null })
        await lapse()
        expect(await reused()).toEqual({ status: 'key-reused' })
        expect(runs).toBe(1)
      })

      it('C09d a definite failure is a value and stays; a throw frees the key at once', async () => {
        const timedOut = guard.withLease('k1', 'pay 100', LEASE, async () => {
          throw new Error('timeout')
        })
        await expect(timedOut).rejects.toThrow('timeout')
        const refused = { status: 'card-refused' }
        expect(await lease<Json>('k1', refused)).toMatchObject({ value: refused, replayed: false })
        expect(await lease<Json>('k1', 'ok')).toMatchObject({ value: refused, replayed: true })
        expect(runs).toBe(1)
      })

      it('C09c after a crash the key is usable again when the lease is over, and not before', async () => {
        const crashed = new IdempotencyGuard({ knex })
        void crashed
          .withLease('k1', 'pay 100', { leaseMs: 1_000 }, () => new Promise<never>(() => {}))
          .catch(() => {})
        await sleep(100)
        expect(await lease('k1', 1)).toEqual({ status: 'in-progress' })
        await sleep(1_000)
        expect(await lease('k1', 2)).toMatchObject({ value: 2, replayed: false })
      })

      it('C09e a late worker is fenced off: it cannot overwrite, and hears what stands', async () => {
        const late = new IdempotencyGuard({ knex })
        const fences: number[] = []
        let finish = (_: string) => {}
        const first = late.withLease('k1', 'pay 100', { leaseMs: 100 }, (fence) => {
          fences.push(fence)
          return new Promise<string>((resolve) => {
            finish = resolve
          })
        })
        await sleep(200)
        const second = guard.withLease('k1', 'pay 100', LEASE, async (fence) => {
          fences.push(fence)
          finish('first')
          expect(await first).toEqual({ status: 'in-progress' })
          return 'second'
        })
        expect(await second).toEqual({ status: 'done', value: 'second', replayed: false })
        expect(await lease('k1', 'third')).toEqual({
          status: 'done',
          value: 'second',
          replayed: true,
        })
        expect(fences[1]).toBeGreaterThan(fences[0] as number)
      })

      it('C09e a late worker that ends after the other is answered with the value of the other', async () => {
        const late = new IdempotencyGuard({ knex })
        const first = late.withLease<string>('k1', 'pay 100', { leaseMs: 100 }, async () => {
          await sleep(150)
          expect(await lease('k1', 'second')).toMatchObject({ replayed: false })
          return 'first'
        })
        expect(await first).toEqual({ status: 'done', value: 'second', replayed: true })
      })

      it('a late failure does not take the claim of the next worker away', async () => {
        const late = new IdempotencyGuard({ knex })
        const first = late.withLease('k1', 'pay 100', { leaseMs: 100 }, async () => {
          await sleep(200)
          throw new Error('late')
        })
        await sleep(150)
        const second = lease('k1', 2, { ms: 600 })
        await expect(first).rejects.toThrow('late')
        const third = await new IdempotencyGuard({ knex }).withLease(
          'k1',
          'pay 100',
          LEASE,
          async () => 3,
        )
        expect(third).toEqual({ status: 'in-progress' })
        expect(await second).toMatchObject({ value: 2 })
      })

      it('late work that nobody took over is still stored', async () => {
        const once = await guard.withLease('k1', 'pay 100', { leaseMs: 100 }, async () => {
          await sleep(150)
          return 1
        })
        expect(once).toEqual({ status: 'done', value: 1, replayed: false })
      })

      it('the signal aborts when the lease is over, and not before', async () => {
        const startedAt = performance.now()
        let reason: unknown
        const once = guard.withLease('k1', 'pay 100', { leaseMs: 200 }, async (_, signal) => {
          expect(signal.aborted).toBe(false)
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
          reason = signal.reason
          expect(performance.now() - startedAt).toBeGreaterThan(150)
          throw signal.reason
        })
        await expect(once).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
        expect(reason).toMatchObject({ name: 'FlashSaleError' })
      })

      it('fences rise with every claim, also after the record was purged', async () => {
        const seen: number[] = []
        const claim = () =>
          guard.withLease('k1', 'pay 100', LEASE, async (fence) => {
            seen.push(fence)
            throw new Error('again')
          })
        for (let i = 0; i < 4; i++) {
          await expect(claim()).rejects.toThrow('again')
          if (i === 2) await knex('seckill_idempotency').delete()
          await sleep(2)
        }
        expect(seen).toEqual([...new Set(seen)].sort((a, b) => a - b))
      })

      it('a fence rises even when the clock of the database has gone back', async () => {
        const failing = () =>
          guard.withLease('k1', 'pay 100', LEASE, async () => {
            throw new Error('again')
          })
        await expect(failing()).rejects.toThrow('again')
        await knex('seckill_idempotency').update({ fence: 9e14 })
        const once = await guard.withLease('k1', 'pay 100', LEASE, async (fence) => fence)
        expect(once).toMatchObject({ value: 9e14 + 1, replayed: false })
      })

      it('of two that find the lease over at once, one takes the claim', async () => {
        await expect(
          guard.withLease('k1', 'pay 100', LEASE, async () => {
            throw new Error('again')
          }),
        ).rejects.toThrow('again')
        const second = new IdempotencyGuard({
          knex: meddling(knex, async (sql, query, also) => {
            if (/SET holder/.test(sql))
              await also(
                "UPDATE seckill_idempotency SET holder = 'first', fence = fence + 1, lease_until = 99999999999999",
              )
            return query()
          }),
        })
        const once = await second.withLease('k1', 'pay 100', LEASE, async () => ++runs)
        expect(once).toEqual({ status: 'in-progress' })
        expect(runs).toBe(0)
      })

      it('C09g a purge between look-up and claim leaves one execution', async () => {
        await lease('k1', 1)
        let purged = false
        const meddled = new IdempotencyGuard({
          knex: meddling(knex, async (sql, query, also) => {
            const answer = await query()
            if (/^SELECT biz_key/.test(sql) && !purged) {
              purged = true
              await also('DELETE FROM seckill_idempotency')
            }
            return answer
          }),
        })
        await knex('seckill_idempotency').update({ state: 'running', result: null, lease_until: 1 })
        const once = await meddled.withLease('k1', 'pay 100', LEASE, async () => ++runs)
        expect(purged).toBe(true)
        expect(once).toEqual({ status: 'done', value: 2, replayed: false })
        expect(await lease('k1', 9)).toMatchObject({ value: 2, replayed: true })
      })

      it('a result that cannot be stored is OUTCOME_UNKNOWN, and the key waits for its lease', async () => {
        let broken = 0
        const unlucky = new IdempotencyGuard({
          knex: meddling(knex, (sql, query) => {
            if (!/state = 'done'/.test(sql)) return query()
            broken++
            return Promise.reject(Object.assign(new Error('gone'), { code: 'ECONNRESET' }))
          }),
        })
        const once = unlucky.withLease('k1', 'pay 100', LEASE, async () => ++runs)
        await expect(once).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
        expect(broken).toBe(3)
        expect(await lease('k1', 9)).toEqual({ status: 'in-progress' })
      })

      it('C16 an answer lost while the result is stored is looked up, and is no replay', async () => {
        let lost = false
        const unlucky = new IdempotencyGuard({
          knex: meddling(knex, async (sql, query) => {
            const answer = await query()
            if (!/state = 'done'/.test(sql) || lost) return answer
            lost = true
            throw Object.assign(new Error('gone'), { code: 'ECONNRESET' })
          }),
        })
        const once = await unlucky.withLease('k1', 'pay 100', LEASE, async () => 7)
        expect(once).toEqual({ status: 'done', value: 7, replayed: false })
      })
    })

    describe('what is stored', () => {
      it.each<Json>([
        null,
        false,
        0,
        -1.5,
        '',
        [],
        {},
        '秒杀🔥 é ü \u0000 \u007f \ud800 \\ "',
        { deep: [{ er: ['1849302938475629013'] }] },
        'x'.repeat(65_533),
      ])('value %# comes back as it was', async (value) => {
        expect(await order('k1', value)).toEqual({ status: 'done', value, replayed: false })
        expect(await order<Json>('k1', 'other')).toEqual({ status: 'done', value, replayed: true })
        await guard.withLease('k2', 'f', LEASE, async () => value)
        const replay = await guard.withLease<Json>('k2', 'f', LEASE, async () => 'other')
        expect(replay).toEqual({ status: 'done', value, replayed: true })
      })

      it('C18 a value that does not fit is refused whole, never cut', async () => {
        for (const value of ['x'.repeat(65_534), '秒'.repeat(11_000)])
          await expect(order('k1', value)).rejects.toMatchObject({ code: 'BAD_INPUT' })
        expect([await effects(), await records()]).toEqual([0, 0])
      })

      it('C11 a value that JSON cannot carry is refused, and the work undone', async () => {
        const cycle: Record<string, unknown> = {}
        cycle['self'] = cycle
        for (const value of [undefined, 1n, { n: 1n }, Symbol('s'), () => 1, cycle])
          await expect(order('k1', value as never)).rejects.toMatchObject({ code: 'BAD_INPUT' })
        expect(await effects()).toBe(0)
      })

      it('C10 keys are equal only byte for byte', async () => {
        const keys = ['User-a1', 'user-a1', 'USER-A1', 'user-a1-', 'user-A1', '"user-a1"', "'", '%']
        for (const key of keys) expect(await order(key, key)).toMatchObject({ replayed: false })
        for (const key of keys)
          expect(await order(key, '?')).toMatchObject({ value: key, replayed: true })
        expect(await order('k'.repeat(128), 1)).toMatchObject({ replayed: false })
        expect(await order(`${'k'.repeat(127)}K`, 1)).toMatchObject({ replayed: false })
      })

      it('a damaged record is CORRUPT, and left alone', async () => {
        await order('k1', 1)
        for (const damage of [{ result: null }, { result: 'nonsense' }]) {
          await knex('seckill_idempotency').update(damage)
          await expect(order('k1', 1)).rejects.toMatchObject({ code: 'CORRUPT' })
        }
        expect([runs, await records()]).toEqual([1, 1])
      })
    })

    describe('purge', () => {
      it('deletes what is old and under no lease, in portions', async () => {
        await order('old', 1)
        await guard.withLease('old-lease', 'f', LEASE, async () => 1)
        await knex('seckill_idempotency').update({ changed_at: 1_000, lease_until: 0 })
        const [row] = await knex('seckill_idempotency').where({ biz_key: 'old' })
        const many = Array.from({ length: 600 }, (_, i) => ({ ...row, biz_key: `many${i}` }))
        for (let at = 0; at < many.length; at += 50)
          await knex('seckill_idempotency').insert(many.slice(at, at + 50))
        await order('young', 1)
        const running = guard.withLease('running', 'f', { leaseMs: 60_000 }, async () => {
          await knex('seckill_idempotency').where({ biz_key: 'running' }).update({ changed_at: 1 })
          return guard.purge(60_000)
        })
        expect(await running).toMatchObject({ value: 602 })
        const left = await knex('seckill_idempotency').orderBy('biz_key').pluck('biz_key')
        expect(left).toEqual(['running', 'young'])
        expect(await guard.purge(60_000)).toBe(0)
      })
    })

    it('a purge spares the record that was taken over while it looked', async () => {
      await order('k1', 1)
      await knex('seckill_idempotency').update({ changed_at: 1_000 })
      const purging = new IdempotencyGuard({
        knex: meddling(knex, async (sql, query, also) => {
          if (/^DELETE/.test(sql))
            await also(`UPDATE seckill_idempotency SET changed_at = ${Date.now() - 30_000}`)
          return query()
        }),
      })
      expect(await purging.purge(60_000)).toBe(0)
      expect(await records()).toBe(1)
    })

    it('C19 with one connection 50 transactions at once never ask for a second', async () => {
      for (const poolMax of kind === 'sqlite' ? [1] : [1, 2]) {
        const small = kind === 'sqlite' ? db : await freshDatabase(kind, { poolMax })
        if (small !== db) await IdempotencyGuard.migrate(small.knex)
        const tight = new IdempotencyGuard({ knex: small.knex })
        const all = await Promise.all(
          Array.from({ length: 50 }, (_, i) =>
            small.knex.transaction((trx) =>
              tight.inTransaction(trx, `k${i % 10}`, 'f', async () => sleep(2, i)),
            ),
          ),
        )
        expect(all.filter((once) => once.status === 'done' && !once.replayed)).toHaveLength(10)
        if (small !== db) await small.destroy()
      }
    })

    it('the SQL for a DBA makes the same table', async () => {
      const sql = IdempotencyGuard.sql(
        kind === 'postgres' ? 'pg' : kind === 'sqlite' ? 'sqlite' : 'mysql',
        { table: 'by_hand' },
      )
      for (const statement of sql.split(';').filter((text) => text.trim() !== ''))
        await knex.raw(statement)
      const byHand = new IdempotencyGuard({ knex, table: 'by_hand' })
      const once = () => byHand.withLease('k1', 'f', LEASE, async () => ++runs)
      expect(await once()).toMatchObject({ value: 1, replayed: false })
      expect(await once()).toMatchObject({ value: 1, replayed: true })
      await IdempotencyGuard.migrate(knex, { table: 'by_hand' })
    })

    it('without its table it says DB_UNAVAILABLE, and shows no value in the message', async () => {
      const lost = new IdempotencyGuard({ knex, table: 'nowhere' })
      const work = async () => 1
      for (const call of [
        () => knex.transaction((trx) => lost.inTransaction(trx, 'k1', 'secret', work)),
        () => lost.withLease('k1', 'secret', LEASE, work),
      ]) {
        const error = await call().catch((caught: unknown) => caught)
        expect(error).toMatchObject({ code: 'DB_UNAVAILABLE' })
        expect(String((error as Error).message)).not.toMatch(/INSERT|SELECT|VALUES/)
      }
    })
  })
}

/** The same knex, with every statement of the library passing through `around`; `also` runs another on its connection. */
export function meddling<K extends SqlRunner>(
  knex: K,
  around: (
    sql: string,
    query: () => Promise<unknown>,
    also: (sql: string) => Promise<unknown>,
  ) => Promise<unknown>,
): K {
  const client: SqlRunner['client'] = {
    dialect: knex.client.dialect,
    acquireConnection: () => knex.client.acquireConnection(),
    releaseConnection: (connection) => knex.client.releaseConnection(connection),
    query: (connection, statement) =>
      around(
        statement.sql,
        () => knex.client.query(connection, statement),
        (sql) => knex.client.query(connection, { sql, bindings: [], method: 'update' }),
      ),
  }
  return new Proxy(knex, {
    get: (target, name) => (name === 'client' ? client : Reflect.get(target, name)),
  })
}
