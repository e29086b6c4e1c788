import { OutboxDispatcher } from 'flash-sale-kit'
import { beforeAll, describe, expect, it } from 'vitest'
import { DATABASES } from '../harness/databases.js'
import { spawnNode } from '../harness/spawn-node.js'
import { databaseNow, type Topic, useOutbox } from '../suites/outbox/kit.js'

const CHILD = new URL('./children/outbox-worker.ts', import.meta.url)

describe.each(DATABASES)('dispatchers in processes of their own, on %s', (kind) => {
  const kit = useOutbox(kind)
  beforeAll(() =>
    kit.knex.schema.createTable('sent', (t) => {
      t.increments('id')
      t.string('biz_no', 128)
    }),
  )

  const child = (topic: Topic, then: 'stay' | 'end' | 'fail', aheadMs = 0) =>
    spawnNode(CHILD, { args: [JSON.stringify(kit.db.address), topic.name, String(aheadMs), then] })

  const sentOf = (topic: Topic) =>
    kit.knex('sent').where('biz_no', 'like', `${topic.name}:%`).orderBy('id').pluck('biz_no')

  it('C22 (c): killed between send and ack: sent again once the lease is over, and then it is done', async () => {
    const topic = kit.topic()
    await topic.add(2)
    const both = [`${topic.name}:1`, `${topic.name}:2`]
    const doomed = await child(topic, 'stay')
    await doomed.line(/^sent$/)
    await doomed.kill('SIGKILL')
    expect(await topic.statuses()).toEqual({ 0: 2 })
    const again: string[] = []
    const dispatcher = new OutboxDispatcher({
      outbox: kit.outbox,
      topics: {
        [topic.name]: async (messages) => {
          again.push(...messages.map((m) => m.bizNo))
        },
      },
    })
    await dispatcher.run()
    expect(again).toEqual([])
    await topic.due()
    await dispatcher.run()
    expect(again).toEqual(both)
    expect(await sentOf(topic)).toEqual(both)
    expect(await topic.statuses()).toEqual({ 1: 2 })
    expect((await topic.rows()).map((row) => row.retry_count)).toEqual([2, 2])
  })

  it('C22 (f): a worker whose clock is a minute ahead takes nothing early, and neither lease nor pause is longer for it', async () => {
    const topic = kit.topic()
    await topic.add(2)
    const held = await topic.take({ limit: 1, leaseMs: 600_000 })
    const from = await databaseNow(kit.knex, kind)
    const ahead = await child(topic, 'fail', 60_000)
    await ahead.line(/^round/)
    const to = await databaseNow(kit.knex, kind)
    await ahead.exited
    expect(await sentOf(topic)).toEqual([`${topic.name}:2`])
    const { next_retry_time, retry_count } = await topic.row(2)
    expect(retry_count).toBe(1)
    expect(next_retry_time).toBeGreaterThanOrEqual(Math.floor(from) - 2 + 1_000)
    expect(next_retry_time).toBeLessThanOrEqual(Math.ceil(to) + 2 + 1_000)
    await topic.outbox.done(held)
    expect((await topic.row(1)).status).toBe(1)
  })
})
