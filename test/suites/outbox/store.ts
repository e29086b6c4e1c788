import { KnexOutbox } from 'flash-sale-kit/knex'
import { describe, expect, it } from 'vitest'
import { type DatabaseKind, openDatabase } from '../../harness/databases.js'
import { AUDIT, databaseNow, failed, numbers, takeAll, useOutbox } from './kit.js'

const PAUSES = [1, 5, 30, 120, 600, 600, 600, 600, 600].map((s) => s * 1_000)

export function storeSuite(kind: DatabaseKind): void {
  describe(`KnexOutbox on ${kind}`, () => {
    const kit = useOutbox(kind)

    it('D4: offers what is due of one topic, the longest due first, and each message to one taker', async () => {
      const topic = kit.topic()
      const other = kit.topic()
      await topic.add(5)
      await other.add(1)
      const first = await topic.take({ limit: 2 })
      expect(numbers(first)).toEqual([`${topic.name}:1`, `${topic.name}:2`])
      expect(first[0]).toMatchObject({ topic: topic.name, payload: '{"n":1}', attempt: 1 })
      expect(numbers(await topic.take())).toHaveLength(3)
      expect(await topic.take()).toEqual([])
      await topic.outbox.done(first)
      await topic.due()
      const again = await topic.take()
      expect(again.map((m) => [m.bizNo.split(':')[1], m.attempt])).toEqual([
        ['3', 2],
        ['4', 2],
        ['5', 2],
      ])
    })

    it('C22 (b): once the lease was lost, a late ack, retry, park or renewal changes nothing', async () => {
      const topic = kit.topic()
      await topic.add(1)
      const late = await topic.take()
      await topic.due()
      const mine = await topic.take()
      expect(mine).toHaveLength(1)
      const before = await topic.rows()
      await topic.outbox.done(late)
      expect(await topic.outbox.retry(failed(late))).toEqual([])
      expect(await topic.outbox.park(failed(late))).toEqual([])
      expect(await topic.outbox.renew(late, 3_600_000)).toEqual([])
      expect(await topic.rows()).toEqual(before)
      expect(await topic.outbox.renew(mine, 3_600_000)).toEqual(mine)
      expect((await topic.row()).next_retry_time).toBeGreaterThan(
        before[0]?.next_retry_time as number,
      )
      await topic.outbox.done(mine)
      expect(await topic.statuses()).toEqual({ 1: 1 })
    })

    it('C22 (b): a lease that ran out, but nobody took the message: its ack still counts', async () => {
      const topic = kit.topic()
      await topic.add(1)
      const taken = await topic.take()
      await topic.due()
      await topic.outbox.done(taken)
      expect(await topic.take()).toEqual([])
      expect(await topic.statuses()).toEqual({ 1: 1 })
    })

    it('C22 (e): of eight takers at once nobody is given what another holds', async () => {
      const topic = kit.topic()
      await topic.add(200)
      const second = openDatabase(kit.db.address)
      try {
        // SQLite: one pool here; two on one file are in outbox-sqlite.test.ts.
        const pools = kind === 'sqlite' ? [kit.knex] : [kit.knex, second]
        await takeAll(
          topic,
          pools.map((knex) => new KnexOutbox({ knex })),
          { takers: 8, count: 200 },
        )
      } finally {
        await second.destroy()
      }
    })

    it('D4: pauses of 1 s, 5 s, 30 s, 2 min, then 10 min by the database’s clock; C22 (g): parked after ten tries, with a manual task, not dropped', async () => {
      const topic = kit.topic()
      await topic.add(1)
      for (const pause of PAUSES) {
        const taken = await topic.take()
        const from = await databaseNow(kit.knex, kind)
        expect(await topic.outbox.retry(failed(taken))).toEqual([])
        const to = await databaseNow(kit.knex, kind)
        const { next_retry_time } = await topic.row()
        expect(next_retry_time).toBeGreaterThanOrEqual(Math.floor(from) - 2 + pause)
        expect(next_retry_time).toBeLessThanOrEqual(Math.ceil(to) + 2 + pause)
        await topic.due()
      }
      const last = failed(await topic.take(), 'Error: the broker is away')
      expect(await topic.tasks()).toEqual([])
      expect(await topic.outbox.retry(last)).toEqual(last)
      expect(await topic.statuses()).toEqual({ 2: 1 })
      const [task] = await topic.tasks()
      expect(task).toMatchObject({ ref: `${topic.name}:1`, resolved_at: null })
      expect(JSON.parse(task.detail)).toEqual({
        topic: topic.name,
        tries: 10,
        error: 'Error: the broker is away',
      })
      await topic.due()
      expect(await topic.take()).toEqual([])
    })

    it('C22 (g): parking whose COMMIT was not answered is told all the same', async () => {
      const topic = kit.topic()
      await topic.add(1)
      const taken = failed(await topic.take())
      expect(await topic.outbox.park(taken)).toEqual(taken)
      expect(await topic.outbox.park(taken)).toEqual(taken)
      expect(await topic.tasks()).toHaveLength(1)
    })

    it('D4: what is parked can be seen and put back, with an audit row; parked again, its task is open again', async () => {
      const topic = kit.topic()
      await topic.add(3)
      const from = await databaseNow(kit.knex, kind)
      await topic.outbox.park(failed(await topic.take({ limit: 2 })))
      const parked = await kit.outbox.parked({ limit: 400 })
      const mine = parked.filter((m) => m.topic === topic.name)
      expect(mine).toMatchObject([
        { bizNo: `${topic.name}:1`, payload: '{"n":1}', tries: 1 },
        { bizNo: `${topic.name}:2` },
      ])
      expect(mine[0]?.parkedAt).toBeGreaterThanOrEqual(Math.floor(from) - 2)

      const asked = [`${topic.name}:1`, `${topic.name}:3`, 'unheard-of']
      expect(await kit.outbox.requeue(asked, AUDIT)).toEqual([`${topic.name}:1`])
      const [act] = await kit.knex('seckill_audit').where({ act: 'outbox-requeue' })
      expect(act).toMatchObject({ actor: 'op', reason: AUDIT.reason, activity_id: null })
      expect(JSON.parse(act.after_value)).toEqual([`${topic.name}:1`])
      expect(await kit.outbox.requeue(asked, AUDIT)).toEqual([])
      expect(await topic.tasks().where({ resolved_at: null }).pluck('ref')).toEqual([
        `${topic.name}:2`,
      ])
      const [resolved] = await topic.tasks().where({ resolved_by: 'op' })
      expect(resolved).toMatchObject({ ref: `${topic.name}:1`, resolution: AUDIT.reason })

      const again = (await topic.take()).filter((m) => m.bizNo === `${topic.name}:1`)
      expect(again[0]?.attempt).toBe(1)
      await topic.outbox.park(failed(again, 'still no'))
      const open = await topic.tasks().where({ resolved_at: null, ref: `${topic.name}:1` })
      expect(open).toHaveLength(1)
      expect(JSON.parse(open[0].detail)).toMatchObject({ error: 'still no' })
      expect(open[0].resolved_by).toBeNull()
    })

    it('D4: purges what was sent long enough ago, in portions, and nothing else', async () => {
      const topic = kit.topic()
      await topic.add(4)
      const [sent, parked, held] = await topic.take({ limit: 3 })
      await topic.outbox.done([sent].filter((m) => m !== undefined))
      await topic.outbox.park(failed([parked].filter((m) => m !== undefined)))
      const many = Array.from({ length: 1_200 }, (_, i) => ({
        biz_no: `${topic.name}:old-${i}`,
        topic: topic.name,
        payload: '{}',
        status: 1,
        next_retry_time: Date.now() - 7_200_000,
        created_at: 1,
      }))
      for (let i = 0; i < many.length; i += 200)
        await kit.knex('local_message').insert(many.slice(i, i + 200))
      expect(await kit.outbox.purge(3_600_000)).toBe(1_200)
      expect(await kit.outbox.purge(3_600_000)).toBe(0)
      expect(await topic.statuses()).toEqual({ 0: 2, 1: 1, 2: 1 })
      expect(held).toBeDefined()
    })
  })
}
