import { resolveManualTasks } from '../manual-tasks.js'
import type { Tables } from '../sql/names.js'
import type { Tx } from '../sql/tx.js'

export type TaskKind = 'payment-hook' | 'payment-unknown' | 'payment-anomaly' | 'refund-parked'

/** What the task was about has come right by itself, so nobody has to look any more. */
export function resolveTask(
  tx: Tx,
  tables: Tables,
  kind: TaskKind,
  ref: string,
  resolution: string,
): Promise<void> {
  const tasks = { kind, refs: [ref] }
  return resolveManualTasks(tx, tables.manualTask, tasks, { by: 'payments', resolution })
}
