import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { KnexOrderBook } from '../../src/knex/index.js'
import { KnexSagaStore } from '../../src/knex/saga/saga-store.js'
import { CompensationSaga } from '../../src/saga/compensation-saga.js'
import { DATABASES, type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { spawnNode } from '../harness/spawn-node.js'
import { POINTS, trip } from '../suites/saga/crash-steps.js'

const CHILD = new URL('./children/saga-work.ts', import.meta.url)

/** What a trip leaves, whoever was killed on the way. */
const EFFECTS = {
  done: ['do a', 'do b', 'do c'],
  undone: ['do a', 'do b', 'undo a', 'undo b'],
}

describe.each(DATABASES)(
  'P3: kill -9 of a process with a saga at every boundary, on %s',
  (kind) => {
    const trips = (['done', 'undone'] as const).flatMap((end) =>
      POINTS[end].map((point) => ({ end, point, id: `${end}-${point.replaceAll(' ', '.')}` })),
    )
    let db: FreshDatabase
    let saga: CompensationSaga<{ readonly full: boolean }, import('knex').Knex.Transaction>

    beforeAll(async () => {
      db = await freshDatabase(kind)
      const { knex } = db
      await KnexOrderBook.migrate(knex)
      await knex.schema.createTable('effects', (t) => {
        t.string('what', 64)
        t.string('saga_key', 128)
      })
      const store = new KnexSagaStore({ knex })
      saga = new CompensationSaga({ store, definition: trip(knex, async () => {}) })
      await knex.transaction(async (trx) => {
        for (const { id, end } of trips)
          await saga.begin(trx, { id, data: { full: end === 'undone' } })
      })
      const child = await spawnNode(CHILD, { args: [JSON.stringify(db.address)] })
      for (const { id } of trips) await child.line(new RegExp(`^${id}$`))
      await child.kill('SIGKILL')
      // The leases of the dead are over.
      await knex('seckill_saga').where({ state: 'active' }).update({ next_time: 0 })
      await saga.run()
    })
    afterAll(() => db?.destroy())

    it.each(trips)(
      '$end, killed at "$point": it ends the same after a restart',
      async ({ id, end }) => {
        expect(await saga.find(id)).toMatchObject({
          status: end,
          data: { ticket: `ticket of ${id}:b` },
          reason: end === 'done' ? null : 'full',
        })
        const effects = await db.knex('effects').where('saga_key', 'like', `${id}:%`).pluck('what')
        expect(effects.sort()).toEqual(EFFECTS[end])
      },
    )
  },
)
