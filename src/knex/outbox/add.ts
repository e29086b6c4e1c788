import { isDeepStrictEqual } from 'node:util'
import type { Knex } from 'knex'
import { FlashSaleError } from '../../core/errors.js'
import { parseJson } from '../../core/json.js'
import { inCallersTransaction } from '../sql/callers-transaction.js'
import { givenUp, StatementFailed } from '../sql/failures.js'
import type { Statements } from '../sql/statements.js'

export interface NewMessage {
  readonly bizNo: string
  readonly topic: string
  /** JSON text. */
  readonly payload: string
}

/**
 * Writes the row, or finds it written: false. The insert comes first, because a look before it would be too early when two
 * add the same number at once: the later waits in the unique key until the other has ended.
 */
export function add(table: string, trx: Knex.Transaction, message: NewMessage): Promise<boolean> {
  const { bizNo, topic, payload } = message
  return inCallersTransaction(trx, async (on) => {
    const taken = await insert(on, table, message)
    if (!taken) return true
    // The caller's snapshot may be older than the row. MySQL shows it to a locking read; PostgreSQL cannot.
    const lock = on.dialect.name === 'mysql' ? on.dialect.forShare : ''
    const [row] = await on.all(`SELECT topic, payload FROM ${table} WHERE biz_no = ?${lock}`, [
      bizNo,
    ])
    if (!row) throw givenUp(taken, false)
    const isSame =
      row.topic === topic && isDeepStrictEqual(parseJson(row.payload as string), parseJson(payload))
    if (isSame) return false
    throw new FlashSaleError(
      'BAD_INPUT',
      `bizNo ${bizNo} is that of a message with another topic or payload; nothing was added`,
    )
  })
}

/** What failed when the number is taken. The caller's transaction lives on: PostgreSQL needs a savepoint for that. */
async function insert(
  on: Statements,
  table: string,
  { bizNo, topic, payload }: NewMessage,
): Promise<StatementFailed | null> {
  const { name, now } = on.dialect
  const mark = async (sql: string) => name === 'pg' && on.all(`${sql} seckill_outbox`)
  await mark('SAVEPOINT')
  try {
    const added = await on.run(
      `INSERT INTO ${table} (biz_no, topic, payload, next_retry_time, created_at) VALUES (?, ?, ?, ${now}, ${now})`,
      [bizNo, topic, payload],
    )
    if (added !== 1) throw new FlashSaleError('CORRUPT', `${table} did not take the row`)
    await mark('RELEASE SAVEPOINT')
    return null
  } catch (error) {
    // Fails only where the whole transaction is lost, and then the first error says why.
    await mark('ROLLBACK TO SAVEPOINT').catch(() => undefined)
    if (error instanceof StatementFailed && error.trouble === 'duplicate') return error
    throw error
  }
}
