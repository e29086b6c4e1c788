import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { IdempotencyGuard } from '../../src/idempotency/idempotency-guard.js'
import { DATABASES, type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { spawnNode } from '../harness/spawn-node.js'

const CHILD = new URL('./children/idempotent-work.ts', import.meta.url)

/** A process does the work up to a point and is killed with SIGKILL; then another one, here, asks for the same. */
async function afterCrash<T>(
  kind: (typeof DATABASES)[number],
  method: 'inTransaction' | 'withLease',
  point: string,
  retry: (db: FreshDatabase, guard: IdempotencyGuard) => Promise<T>,
): Promise<T> {
  const db = await freshDatabase(kind)
  try {
    await IdempotencyGuard.migrate(db.knex)
    await db.knex.schema.createTable('effects', (t) => {
      t.string('what', 64).primary()
    })
    const child = await spawnNode(CHILD, { args: [JSON.stringify(db.address), method, point] })
    await child.line(new RegExp(`^${point}$`))
    await child.kill('SIGKILL')
    const outcome = await retry(db, new IdempotencyGuard({ knex: db.knex }))
    expect(await db.knex('effects').pluck('what')).toEqual(['once'])
    return outcome
  } finally {
    await db.destroy()
  }
}

describe.each(DATABASES)('C09c a process is killed on %s', (kind) => {
  it.each(['claimed', 'worked', 'stored'])(
    'inTransaction, at the point "%s": the effect is there once, and the key free at once',
    async (point) => {
      const once = await afterCrash(kind, 'inTransaction', point, ({ knex }, guard) =>
        knex.transaction((trx) =>
          guard.inTransaction(trx, 'k1', 'f', async () => {
            await trx('effects').insert({ what: 'once' })
            return 'retry'
          }),
        ),
      )
      const stored = point === 'stored'
      expect(once).toEqual({
        status: 'done',
        value: stored ? 'child' : 'retry',
        replayed: stored,
      })
    },
  )

  it.each(['claimed', 'worked', 'stored'])(
    'withLease, at the point "%s": the effect is there once, and the key free after the lease',
    async (point) => {
      const stored = point === 'stored'
      const once = await afterCrash(kind, 'withLease', point, async ({ knex }, guard) => {
        const retry = () =>
          guard.withLease('k1', 'f', { leaseMs: 1_500 }, async () => {
            await knex('effects').insert({ what: 'once' }).onConflict('what').ignore()
            return 'retry'
          })
        if (stored) return retry()
        expect(await retry()).toEqual({ status: 'in-progress' })
        await sleep(1_500)
        return retry()
      })
      expect(once).toEqual({
        status: 'done',
        value: stored ? 'child' : 'retry',
        replayed: stored,
      })
    },
  )
})
