import { setTimeout as sleep } from 'node:timers/promises'
import type { OutboxMessage } from 'flash-sale-kit'
import type { Knex } from 'knex'
import { describe, expect, it } from 'vitest'
import { type DatabaseKind, openDatabase } from '../../harness/databases.js'
import { until } from '../../harness/net.js'
import { useOutbox } from './kit.js'

export function addSuite(kind: DatabaseKind): void {
  describe(`KnexOutbox.add on ${kind}`, () => {
    const kit = useOutbox(kind)
    const add = (trx: Knex.Transaction, message: OutboxMessage) => kit.outbox.add(trx, message)

    it('D4: the message is there if the transaction commits, and only then', async () => {
      const topic = kit.topic()
      await expect(
        kit.knex.transaction(async (trx) => {
          expect(await add(trx, topic.message(1))).toBe(true)
          throw new Error('the host thinks better of it')
        }),
      ).rejects.toThrow('thinks better')
      expect(await topic.rows()).toEqual([])
      await topic.add(1)
      const row = await topic.row()
      expect(row).toMatchObject({ status: 0, retry_count: 0, lease: null })
      expect((await topic.take())[0]?.payload).toBe('{"n":1}')
    })

    it('D4: the same message again adds nothing; another under its number is an error that ends no transaction', async () => {
      const topic = kit.topic()
      await topic.add(1)
      await kit.knex.transaction(async (trx) => {
        expect(await add(trx, topic.message(1))).toBe(false)
        await add(trx, topic.message(2, { a: 1, b: [null, '秒杀 🔥 \0'] }))
        expect(await add(trx, topic.message(2, { b: [null, '秒杀 🔥 \0'], a: 1 }))).toBe(false)
        for (const other of [
          topic.message(1, { n: 2 }),
          { ...topic.message(1), topic: 'another' },
          topic.message(2, { a: 1, b: [null, ''] }),
        ]) {
          const refused = add(trx, other)
          await expect(refused).rejects.toMatchObject({ name: 'FlashSaleError', code: 'BAD_INPUT' })
          await expect(refused).rejects.toThrow(other.bizNo)
        }
        expect(await add(trx, topic.message(3))).toBe(true)
      })
      expect((await topic.rows()).map((row) => row.biz_no.split(':')[1])).toEqual(['1', '2', '3'])
      const [, second] = await topic.take()
      expect(JSON.parse(second?.payload as string)).toEqual({ a: 1, b: [null, '秒杀 🔥 \0'] })
    })

    it('D4: a number that was sent or parked is still that number', async () => {
      const topic = kit.topic()
      await topic.add(1)
      await topic.outbox.done(await topic.take())
      expect(await kit.knex.transaction((trx) => add(trx, topic.message(1)))).toBe(false)
      expect(await topic.statuses()).toEqual({ 1: 1 })
    })

    // SQLite has one writer: the second transaction begins when the first has ended.
    if (kind !== 'sqlite') {
      it.each(['commit', 'rollback'] as const)(
        'D4: two who add one number at once: after a %s of the first the second is right',
        async (end) => {
          const topic = kit.topic()
          const second = openDatabase(kit.db.address)
          const first = await kit.knex.transaction()
          try {
            expect(await add(first, topic.message(1))).toBe(true)
            const trx = await second.transaction()
            let settled = false
            const waiting = add(trx, topic.message(1)).finally(() => {
              settled = true
            })
            await until('the second waits for the first', () => someoneWaits(kit.knex, kind))
            expect(settled).toBe(false)
            await first[end]()
            expect(await waiting).toBe(end === 'rollback')
            await add(trx, topic.message(2))
            await trx.commit()
            expect(await topic.statuses()).toEqual({ 0: 2 })
          } finally {
            if (!first.isCompleted()) await first.rollback()
            await second.destroy()
          }
        },
      )

      it('D4: a number written after the caller’s snapshot is found, or the transaction is to be repeated', async () => {
        const topic = kit.topic()
        const trx = await kit.knex.transaction({ isolationLevel: 'repeatable read' })
        await trx('local_message').where({ topic: topic.name })
        await topic.add(1)
        const outcome = await add(trx, topic.message(1)).catch((error) => error.code)
        // MySQL reads past its snapshot; PostgreSQL cannot, nor can MariaDB from 11.6 on.
        expect([false, 'DB_BUSY']).toContain(outcome)
        if (kind === 'mysql') expect(outcome).toBe(false)
        if (kind === 'postgres') {
          expect(outcome).toBe('DB_BUSY')
          expect(await add(trx, topic.message(2))).toBe(true)
        }
        await trx.rollback()
      })
    }

    it('D4: twenty transactions adding one number: it is there once', async () => {
      const topic = kit.topic()
      const added = await Promise.all(
        Array.from({ length: 20 }, async () => {
          for (;;)
            try {
              return await kit.knex.transaction((trx) => add(trx, topic.message(1)))
            } catch (error) {
              // What add says of a deadlock; the host repeats his transaction.
              if ((error as { code?: unknown }).code !== 'DB_BUSY') throw error
            }
        }),
      )
      expect(added.filter(Boolean)).toHaveLength(1)
      expect(await topic.rows()).toHaveLength(1)
    })

    it('C02: wants an open transaction', async () => {
      const topic = kit.topic()
      const ended = await kit.knex.transaction()
      await ended.rollback()
      for (const trx of [ended, kit.knex, undefined, {}, 'trx'])
        await expect(add(trx as never, topic.message(1))).rejects.toMatchObject({
          code: 'BAD_INPUT',
        })
      expect(await topic.rows()).toEqual([])
    })
  })
}

/** Whether a transaction waits for the lock of another. */
async function someoneWaits(knex: Knex, kind: DatabaseKind): Promise<boolean> {
  const sql =
    kind === 'postgres'
      ? "SELECT COUNT(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
      : "SELECT COUNT(*) AS n FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
  // InnoDB answers from a copy that it takes anew only if nobody has asked for 0.1 s: who asks more often sees no change.
  await sleep(150)
  const answer = await knex.raw(sql)
  const [row] = kind === 'postgres' ? answer.rows : answer[0]
  return Number(row.n) > 0
}
