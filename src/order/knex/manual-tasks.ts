import type { Json } from '../../core/types.js'
import type { Column } from './dialect.js'
import type { Tx } from './tx.js'

/** Work for a person; one of a kind for each `ref`. */
export interface ManualTask {
  readonly kind: string
  /** What it is about, at most 200 characters. */
  readonly ref: string
  readonly detail: Json | object
}

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
