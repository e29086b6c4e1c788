import { describe, expect, it } from 'vitest'
import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from '../../../src/knex/index.js'
import { type DatabaseKind, freshDatabase } from '../../harness/databases.js'
import { AUDIT, inParallel, makeKit, tally, useKit } from './kit.js'

export function activitiesSuite(kind: DatabaseKind): void {
  describe(`activity control and store on ${kind}`, () => {
    const kit = useKit(kind)
    const control = () => new KnexActivityControl({ knex: kit.knex })
    const audits = (activityId: string) =>
      kit.knex('seckill_audit').where({ activity_id: activityId }).orderBy('at')

    it('O1: an activity nobody has touched is stopped', async () => {
      expect(await control().read('untouched')).toEqual({
        ...{ state: 'stopped', tokenEpoch: 1, revision: 0 },
      })
    })

    it('O1: every act leaves who, when, why, before and after, in its own transaction', async () => {
      const { activityId } = await kit.sale()
      const opened = await control().set(activityId, 'open', { ...AUDIT, approvedBy: 'boss' })
      const revision = await control().set(activityId, 'stopped', AUDIT)
      expect(revision).toBeGreaterThan(opened)
      expect(await control().read(activityId)).toEqual({
        ...{ state: 'stopped', tokenEpoch: 1, revision },
      })
      const rows = await audits(activityId)
      expect(rows.map((row) => row.act).sort()).toEqual(['open', 'stop'])
      const open = rows.find((row) => row.act === 'open')
      expect(open).toMatchObject({ actor: 'op', reason: 'a test', approved_by: 'boss' })
      const before = { state: 'stopped', tokenEpoch: 1, revision: 0 }
      expect(JSON.parse(open.before_value)).toEqual(before)
      expect(JSON.parse(open.after_value)).toEqual({
        ...{ state: 'open', tokenEpoch: 1, revision: opened },
      })
      expect(Math.abs(Number(open.at) - Date.now())).toBeLessThan(10_000)
    })

    it('Q4: the workers run until somebody freezes them, and again when he lets them go, each act audited', async () => {
      expect(await control().readConsumers()).toBe('running')
      await control().setConsumers('frozen', AUDIT)
      expect(await control().readConsumers()).toBe('frozen')
      await control().setConsumers('running', AUDIT)
      expect(await control().readConsumers()).toBe('running')
      const acts = await audits('*')
      expect(acts.map((row) => row.act).sort()).toEqual(['freeze-consumers', 'thaw-consumers'])
      expect(acts[0]).toMatchObject({ actor: 'op', reason: 'a test' })
    })

    it.each(['', 'stopped', null, undefined, 1])('Q4: %j is no state of workers', async (to) => {
      const set = control().setConsumers(to as never, AUDIT)
      await expect(set).rejects.toMatchObject({ code: 'BAD_INPUT' })
    })

    it('T1: twelve revocations at once, the first on no row, raise the token epoch by twelve', async () => {
      const { activityId } = await kit.sale()
      const acts = Array.from({ length: 12 }, (_, i) => i)
      const epochs = await inParallel(12, acts, () => control().revokeTokens(activityId, AUDIT))
      expect([...epochs].sort((a, b) => a - b)).toEqual(acts.map((i) => i + 2))
      expect(await control().read(activityId)).toMatchObject({
        ...{ state: 'stopped', tokenEpoch: 13 },
      })
      expect(await audits(activityId)).toHaveLength(12)
    })

    it('F1: the store gives back what was saved, and lists what is live', async () => {
      const store = new KnexActivityStore({ knex: kit.knex })
      const { activity, activityId } = await kit.sale({ skus: 1000, prepared: false })
      await store.save(activity)
      await store.save(activity)
      expect(await store.load(activityId)).toEqual({ ...activity, watermark: 5000 })
      await store.save({ ...activity, version: 'v2' })
      expect((await store.load(activityId))?.version).toBe('v2')
      expect(await store.live()).toContain(activityId)
      expect(await store.retire(activityId)).toBe(true)
      expect(await store.live()).not.toContain(activityId)
      expect(await store.load(activityId)).not.toBeNull()
      expect([await store.load('none'), await store.retire('none')]).toEqual([null, false])
    })

    it('F1: stored terms that are none are an error', async () => {
      const store = new KnexActivityStore({ knex: kit.knex })
      const { activity, activityId } = await kit.sale({ prepared: false })
      await store.save(activity)
      await kit.knex('seckill_activity_terms').update({ terms: '{"activityId":1}' })
      await expect(store.load(activityId)).rejects.toMatchObject({ code: 'CORRUPT' })
    })
  })

  describe(`schema on ${kind}`, () => {
    it('D4: six migrate at once, then again over data, and nothing is lost', async () => {
      const db = await freshDatabase(kind)
      try {
        await Promise.all(Array.from({ length: 6 }, () => KnexOrderBook.migrate(db.knex)))
        const kit = makeKit(db)
        const sale = await kit.sale()
        await kit.book().confirm(sale.reservations(3))
        await KnexOrderBook.migrate(db.knex)
        expect(await kit.rows(sale)).toHaveLength(3)
        expect(await db.knex('seckill_order_readable').select('created_at')).toHaveLength(3)
      } finally {
        await db.destroy()
      }
    })

    it('D4: two prefixes live side by side, and the DBA’s SQL makes the same tables', async () => {
      const db = await freshDatabase(kind)
      try {
        const dialect = kind === 'postgres' ? 'pg' : kind
        for (const sql of KnexOrderBook.sql(dialect, { prefix: 'shop_' }).split(';\n'))
          if (sql.trim()) await db.knex.raw(sql)
        await KnexOrderBook.migrate(db.knex, { prefix: 'shop_' })
        await KnexOrderBook.migrate(db.knex)
        const { book, sale } = makeKit(db)
        const { activity, reservations, ref } = await sale()
        const shop = book({ prefix: 'shop_' })
        await shop.prepare(activity)
        expect(tally(await shop.confirm(reservations(2)))).toEqual({ confirmed: 2 })
        expect(await shop.numbers(ref())).toMatchObject({ live: 2 })
        expect(await book().numbers(ref())).toMatchObject({ live: 0 })
        await shop.closeUnbooked(reservations(1), 'lost')
        expect(await db.knex('shop_local_message')).toHaveLength(1)
        expect(await db.knex('local_message')).toHaveLength(0)
      } finally {
        await db.destroy()
      }
    })

    it('D4: a table of that name which is the host’s own is noticed', async () => {
      const db = await freshDatabase(kind)
      try {
        await db.knex.schema.createTable('local_message', (t) => t.increments('id'))
        await expect(KnexOrderBook.migrate(db.knex)).rejects.toThrow('choose another prefix')
      } finally {
        await db.destroy()
      }
    })

    it('without tables every method says that the database did not do it', async () => {
      const db = await freshDatabase(kind)
      try {
        const kit = makeKit(db)
        const sale = await kit.sale({ prepared: false })
        for (const call of [
          () => kit.book().prepare(sale.activity),
          () => kit.book().confirm(sale.reservations(1)),
          () => kit.book().numbers(sale.ref()),
        ])
          await expect(call()).rejects.toMatchObject({ code: 'DB_UNAVAILABLE' })
      } finally {
        await db.destroy()
      }
    })
  })
}
