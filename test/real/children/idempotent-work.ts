import { setTimeout as sleep } from 'node:timers/promises'
import { IdempotencyGuard } from '../../../src/idempotency/idempotency-guard.js'
import { type DatabaseAddress, openDatabase } from '../../harness/databases.js'

/**
 * Does one idempotent piece of work, says which point it has reached, and stays there to be killed.
 * Arguments: database address (JSON), method, the point at which to stay (`claimed`, `worked`, `stored`).
 */
const [address = '', method, stayAt] = process.argv.slice(2)
const knex = openDatabase(JSON.parse(address) as DatabaseAddress)
const guard = new IdempotencyGuard({ knex })

async function reached(point: string): Promise<void> {
  process.stdout.write(`${point}\n`)
  if (point === stayAt) await sleep(60_000)
}

if (method === 'inTransaction') {
  await knex.transaction((trx) =>
    guard.inTransaction(trx, 'k1', 'f', async () => {
      await reached('claimed')
      await trx('effects').insert({ what: 'once' })
      await reached('worked')
      return 'child'
    }),
  )
} else {
  // The effect is beyond the database: a channel that takes each key once, as payment channels do.
  await guard.withLease('k1', 'f', { leaseMs: 1_500 }, async () => {
    await reached('claimed')
    await knex('effects').insert({ what: 'once' }).onConflict('what').ignore()
    await reached('worked')
    return 'child'
  })
}
await reached('stored')
