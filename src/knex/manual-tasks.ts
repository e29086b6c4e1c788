import * as check from '../core/check.js'
import type { ManualTask } from '../core/order-book.js'
import { MAX_TEXT_BYTES } from '../core/storable.js'
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

/** The same for what happened again: a task that was resolved is open once more, with the new detail. */
export async function reopenManualTask(
  tx: Tx,
  table: string,
  task: ManualTask,
  now: number,
): Promise<void> {
  const { kind, ref, detail } = task
  await tx.run(
    `UPDATE ${table} SET detail = ?, created_at = ?, resolved_at = NULL, resolved_by = NULL, resolution = NULL WHERE kind = ? AND ref = ? AND resolved_at IS NOT NULL`,
    [JSON.stringify(detail), now, kind, ref],
  )
  await addManualTask(tx, table, task, now)
}

/** Nobody has to do these any more. */
export async function resolveManualTasks(
  tx: Tx,
  table: string,
  tasks: { readonly kind: string; readonly refs: readonly string[] },
  o: { readonly by: string; readonly resolution: string },
): Promise<void> {
  await tx.runIn(
    `UPDATE ${table} SET resolved_at = ${tx.dialect.now}, resolved_by = ?, resolution = ? WHERE resolved_at IS NULL AND kind = ? AND ref IN (??)`,
    [o.by, o.resolution, tasks.kind],
    tasks.refs,
  )
}

export function checkManualTask(task: ManualTask): ManualTask {
  check.object(task, 'task')
  const kind = check.text(task.kind, 'task.kind', 64)
  const ref = check.text(task.ref, 'task.ref', 200)
  const detail = JSON.stringify(task.detail)
  if (typeof detail !== 'string' || Buffer.byteLength(detail) > MAX_TEXT_BYTES)
    check.fail('BAD_INPUT', 'task.detail', `JSON of at most ${MAX_TEXT_BYTES} bytes`, detail)
  return { kind, ref, detail: task.detail }
}
