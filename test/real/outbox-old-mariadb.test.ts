import { KnexOutbox } from 'flash-sale-kit/knex'
import knexPackage, { type Knex } from 'knex'
import { describe, expect, it } from 'vitest'
import { failed, takeAll, useOutbox } from '../suites/outbox/kit.js'

type Statement = string | { readonly sql: string }
type Client = new (
  config: object,
) => { query(connection: object, statement: Statement): Promise<unknown> }

/** A pool whose server does not know SKIP LOCKED, as MariaDB before 10.6: it gets words that no server knows. */
function oldPool(knex: Knex, asked: string[]): Knex {
  const Known = knex.client.constructor as Client
  class Old extends Known {
    override query(connection: object, statement: Statement) {
      if (typeof statement === 'string' || !statement.sql.includes('SKIP LOCKED'))
        return super.query(connection, statement)
      asked.push(statement.sql)
      const sql = statement.sql.replace('SKIP LOCKED', 'SKIP LOCKED_')
      return super.query(connection, { ...statement, sql })
    }
  }
  return knexPackage({ ...knex.client.config, client: Old as never })
}

describe.each(['mariadb', 'mysql'] as const)('an outbox on %s without SKIP LOCKED', (kind) => {
  const kit = useOutbox(kind)

  it('C22 (e): of eight takers at once nobody is given what another holds, and the server is asked for it once', async () => {
    const topic = kit.topic()
    await topic.add(200)
    const asked: string[] = []
    const pools = [oldPool(kit.knex, asked), oldPool(kit.knex, asked)]
    try {
      const outboxes = pools.map((knex) => new KnexOutbox({ knex }))
      for (const outbox of outboxes)
        expect(await outbox.take({ topic: 'none', limit: 1, leaseMs: 1_000 })).toEqual([])
      await takeAll(topic, outboxes, { takers: 8, count: 200 })
      expect(asked).toHaveLength(2)
    } finally {
      await Promise.all(pools.map((knex) => knex.destroy()))
    }
  })

  it('C22 (b, e): a lost lease is lost there, too', async () => {
    const topic = kit.topic()
    await topic.add(2)
    const pool = oldPool(kit.knex, [])
    try {
      const outbox = new KnexOutbox({ knex: pool })
      const late = await topic.take({}, outbox)
      await topic.due()
      const mine = await topic.take({}, outbox)
      expect(mine).toHaveLength(2)
      await outbox.done(late)
      expect(await outbox.park(failed(late))).toEqual([])
      expect(await topic.statuses()).toEqual({ 0: 2 })
      await outbox.done(mine)
      expect(await topic.statuses()).toEqual({ 1: 2 })
    } finally {
      await pool.destroy()
    }
  })
})
