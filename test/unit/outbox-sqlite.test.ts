import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { KnexOutbox } from 'flash-sale-kit/knex'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openDatabase } from '../harness/databases.js'
import { failed, takeAll, useOutbox } from '../suites/outbox/kit.js'

const kit = useOutbox('sqlite')

// As in order-book-sqlite.test.ts: libsql holds on to a statement that met a locked file until it is collected.
let collecting: NodeJS.Timeout
beforeAll(() => {
  setFlagsFromString('--expose-gc')
  collecting = setInterval(runInNewContext('gc') as () => void, 20)
})
afterAll(() => clearInterval(collecting))

it('C22 (e): two pools on one SQLite file never hold one message at once', async () => {
  const topic = kit.topic()
  await topic.add(60)
  const second = openDatabase(kit.db.address)
  try {
    const outboxes = [kit.knex, second].map(
      (knex) => new KnexOutbox({ knex, maxAttempts: 200, giveUpAfterMs: 60_000 }),
    )
    await takeAll(topic, outboxes, { takers: 4, count: 60 })
    await topic.due()
    const [first, other] = outboxes as [KnexOutbox, KnexOutbox]
    const late = await topic.take({}, first)
    await topic.due()
    await other.done(await topic.take({ limit: 10 }, other))
    expect(await first.park(failed(late.slice(0, 10)))).toEqual([])
    expect(await topic.statuses()).toEqual({ 0: 50, 1: 10 })
  } finally {
    await second.destroy()
  }
})
