import * as check from '../core/check.js'
import type { ManualTask } from '../core/ports.js'
import type { Column } from './sql/dialect.js'
import type { Tx } from './sql/tx.js'

const COLUMNS: readonly Column[] = [
  { name: 'kind', kind: 'text' },
  { name: 'ref', kind: 'text' },
  { name: 'detail', kind: 'text' },
  { name: 'created_at', kind: 'int' },
]

/** Writes the task unless it is there. Two who do so at once meet in the unique key, and the later repeats its unit. */
export async function addManualTask(
  tx: Tx,
  table: string,
  task: ManualTask,
  now: number,
): Promise<void> {
  const { kind, ref, detail } = task
  const there = await tx.all(`SELECT id FROM ${table} WHERE kind = ? AND ref = ?`, [kind, ref])
  if (there.length === 0)
    await tx.insert(table, COLUMNS, [[kind, ref, JSON.stringify(detail), now]])
}

/** MySQL's TEXT holds 65,535 bytes. */
const MAX_DETAIL_BYTES = 60_000

export function checkManualTask(task: ManualTask): ManualTask {
  check.object(task, 'task')
  const kind = check.text(task.kind, 'task.kind', 64)
  const ref = check.text(task.ref, 'task.ref', 200)
  const detail = JSON.stringify(task.detail)
  if (typeof detail !== 'string' || Buffer.byteLength(detail) > MAX_DETAIL_BYTES)
    check.fail('BAD_INPUT', 'task.detail', `JSON of at most ${MAX_DETAIL_BYTES} bytes`, detail)
  return { kind, ref, detail: task.detail }
}
