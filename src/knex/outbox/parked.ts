import type { Audit } from '../../core/types.js'
import { Act } from '../activity/audit.js'
import { reopenManualTask, resolveManualTasks } from '../manual-tasks.js'
import type { Database } from '../sql/database.js'
import { exact } from '../sql/dialect.js'
import type { Tables } from '../sql/names.js'
import type { Tx } from '../sql/tx.js'
import { DUE, PARKED } from './tables.js'

const TASK = 'outbox-parked'

/** A message that nobody tries to send any more, until somebody puts it back. */
export interface ParkedMessage {
  readonly bizNo: string
  readonly topic: string
  /** JSON, as it was written. */
  readonly payload: string
  readonly tries: number
  /** Epoch ms by the database's clock. */
  readonly parkedAt: number
}

/** A message to be parked, and what its last try met. */
export interface Parking {
  readonly bizNo: string
  readonly topic: string
  readonly tries: number
  readonly error: string
}

/** Sets rows aside that the caller has locked, each with a task for a person; a task that was resolved is open again. */
export async function park(tx: Tx, tables: Tables, messages: readonly Parking[]): Promise<void> {
  if (messages.length === 0) return
  const now = await tx.now()
  await tx.runIn(
    `UPDATE ${tables.message} SET status = ${PARKED}, next_retry_time = ? WHERE biz_no IN (??)`,
    [now],
    messages.map((m) => m.bizNo),
  )
  for (const { bizNo, topic, tries, error } of messages) {
    const detail = { topic, tries, error: error.slice(0, 500) }
    await reopenManualTask(tx, tables.manualTask, { kind: TASK, ref: bizNo, detail }, now)
  }
}

/** Those messages need nobody any more. */
export async function resolveTasks(
  tx: Tx,
  tables: Tables,
  bizNos: readonly string[],
  o: { readonly by: string; readonly resolution: string },
): Promise<void> {
  await resolveManualTasks(tx, tables.manualTask, { kind: TASK, refs: bizNos }, o)
}

/** The longest parked first. */
export async function parked(database: Database, limit: number): Promise<readonly ParkedMessage[]> {
  const rows = await database.read((on) =>
    on.all(
      `SELECT biz_no, topic, payload, retry_count, next_retry_time FROM ${database.tables.message} WHERE status = ${PARKED} ORDER BY next_retry_time, id LIMIT ${limit}`,
    ),
  )
  return rows.map((row) => ({
    bizNo: row.biz_no as string,
    topic: row.topic as string,
    payload: row.payload as string,
    tries: exact(row.retry_count, 'retry_count'),
    parkedAt: exact(row.next_retry_time, 'next_retry_time'),
  }))
}

/** Due at once with all tries before them; their tasks are resolved, the act is written down, in one transaction. */
export function requeue(
  database: Database,
  bizNos: readonly string[],
  audit: Audit,
): Promise<readonly string[]> {
  const { tables } = database
  const act = new Act(tables.audit, { act: 'outbox-requeue', activityId: null, audit })
  return database.write(async (tx) => {
    const done = await act.done(tx)
    if (done) return done.after as readonly string[]
    const rows = await tx.allIn(
      `SELECT biz_no FROM ${tables.message} WHERE status = ${PARKED} AND biz_no IN (??)${tx.dialect.forUpdate}`,
      [...bizNos].sort(),
    )
    const found = rows.map((row) => row.biz_no as string)
    if (found.length === 0) return []
    await tx.runIn(
      `UPDATE ${tables.message} SET status = ${DUE}, retry_count = 0, next_retry_time = ${tx.dialect.now}, lease = NULL WHERE biz_no IN (??)`,
      [],
      found,
    )
    await resolveTasks(tx, tables, found, { by: audit.actor, resolution: audit.reason })
    await act.record(tx, await tx.now(), { status: 'parked' }, found)
    return found
  })
}
