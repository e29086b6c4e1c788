import type { Database } from '../sql/database.js'
import { SENT } from './tables.js'

/** One transaction each, so that nobody waits long for a lock. */
const ROWS_A_PORTION = 1_000

/** Deletes what was sent longer ago than that, by the database's clock; returns how many. */
export async function purge(database: Database, olderThanMs: number): Promise<number> {
  const { message } = database.tables
  for (let purged = 0; ; ) {
    const portion = await database.write(async (tx) => {
      const rows = await tx.all(
        `SELECT biz_no FROM ${message} WHERE status = ${SENT} AND next_retry_time < ${tx.dialect.now} - ${olderThanMs} ORDER BY next_retry_time LIMIT ${ROWS_A_PORTION}`,
      )
      await tx.runIn(
        `DELETE FROM ${message} WHERE status = ${SENT} AND biz_no IN (??)`,
        [],
        rows.map((row) => row.biz_no as string),
      )
      return rows.length
    })
    purged += portion
    if (portion < ROWS_A_PORTION) return purged
  }
}
