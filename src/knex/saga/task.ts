import type { SagaHold, SagaPosition } from '../../core/saga.js'
import type { Audit } from '../../core/types.js'
import { reopenManualTask, resolveManualTasks } from '../manual-tasks.js'
import type { Tables } from '../sql/names.js'
import type { Tx } from '../sql/tx.js'

const TASK = 'saga-parked'

/** What a person and the audit are told; the data may be long, and private. */
export function summaryOf({ sagaId, kind }: SagaHold, at: SagaPosition): object {
  const { state, direction, stepName: step, tries, reason, lastError } = at
  return { sagaId, kind, state, direction, step, tries, reason, lastError }
}

/** The task of a saga that is parked now; one that was resolved earlier is open again. */
export async function openTask(
  tx: Tx,
  tables: Tables,
  hold: SagaHold,
  at: SagaPosition,
): Promise<void> {
  const task = { kind: TASK, ref: hold.sagaId, detail: summaryOf(hold, at) }
  await reopenManualTask(tx, tables.manualTask, task, await tx.now())
}

export async function resolveTask(
  tx: Tx,
  tables: Tables,
  { sagaId }: SagaHold,
  { actor, reason }: Audit,
): Promise<void> {
  const tasks = { kind: TASK, refs: [sagaId] }
  await resolveManualTasks(tx, tables.manualTask, tasks, { by: actor, resolution: reason })
}
