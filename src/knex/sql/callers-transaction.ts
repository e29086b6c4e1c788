import type { Knex } from 'knex'
import { FlashSaleError } from '../../core/errors.js'
import { dialectOf } from './dialect.js'
import { clientOf } from './driver.js'
import { givenUp, StatementFailed } from './failures.js'
import { Statements } from './statements.js'

/** The caller's own limits end his statements; this one is for a connection that would never answer. */
const STATEMENT_MS = 600_000

/**
 * Statements in a transaction that is the host's: he commits it, or repeats it as a whole. Throws `BAD_INPUT` unless it
 * is an open one; what a statement meets becomes `DB_BUSY` or `DB_UNAVAILABLE`.
 */
export async function inCallersTransaction<T>(
  trx: Knex.Transaction,
  work: (on: Statements) => Promise<T>,
): Promise<T> {
  if (trx?.isTransaction !== true || trx.isCompleted())
    throw new FlashSaleError('BAD_INPUT', 'trx must be a knex transaction that is still open')
  const client = clientOf(trx)
  const dialect = dialectOf(client.dialect)
  const connection = await client.acquireConnection()
  try {
    return await work(new Statements({ dialect, client, connection, statementMs: STATEMENT_MS }))
  } catch (error) {
    throw error instanceof StatementFailed ? givenUp(error, false) : error
  } finally {
    await client.releaseConnection(connection)
  }
}
