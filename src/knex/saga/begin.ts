import type { Knex } from 'knex'
import type { SagaStore } from '../../core/saga.js'
import { inCallersTransaction } from '../sql/callers-transaction.js'
import type { Database } from '../sql/database.js'
import { StatementFailed } from '../sql/failures.js'
import type { Statements } from '../sql/statements.js'

type Begun = Awaited<ReturnType<SagaStore<Knex.Transaction>['begin']>>
type NewSaga = Parameters<SagaStore<Knex.Transaction>['begin']>[1]

/** Inserts without an error on PostgreSQL, where one would end the caller's transaction. */
export function begin(database: Database, trx: Knex.Transaction, saga: NewSaga): Promise<Begun> {
  return inCallersTransaction(trx, async (on) => {
    if (await insert(on, database.tables.saga, saga)) return 'begun'
    // The snapshot of a MySQL transaction may be older than the row; a locking read is not.
    const lock = on.dialect.name === 'mysql' ? on.dialect.forShare : ''
    const [row] = await on.all(
      `SELECT fingerprint FROM ${database.tables.saga} WHERE saga_id = ?${lock}`,
      [saga.sagaId],
    )
    return row?.fingerprint === saga.fingerprint ? 'known' : 'differs'
  })
}

/** False when the id is taken; if another transaction has just inserted it, once that has committed. */
async function insert(on: Statements, table: string, saga: NewSaga): Promise<boolean> {
  const { dialect } = on
  const sql = `INSERT INTO ${table} (saga_id, kind, state, direction, step, step_name, data, fingerprint, tries, fence, next_time, created_at, updated_at)
    VALUES (?, ?, 'active', 'do', 0, ?, ?, ?, 0, 0, ${dialect.now}, ${dialect.now}, ${dialect.now})`
  const values = [saga.sagaId, saga.kind, saga.stepName, saga.data, saga.fingerprint]
  if (dialect.name !== 'mysql')
    return (await on.run(`${sql} ON CONFLICT (saga_id) DO NOTHING`, values)) === 1
  try {
    await on.run(sql, values)
    return true
  } catch (error) {
    // The table has one unique key. On MySQL a duplicate undoes its statement only.
    if (error instanceof StatementFailed && error.trouble === 'duplicate') return false
    throw error
  }
}
