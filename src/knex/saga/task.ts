import type { SagaHold, SagaPosition } from '../../core/ports.js'
import type { Audit } from '../../core/types.js'
import { addManualTask } from '../manual-tasks.js'
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
  const detail = summaryOf(hold, at)
  const now = await tx.now()
  await tx.run(
    `UPDATE ${tables.manualTask} SET detail = ?, created_at = ?, resolved_at = NULL, resolved_by = NULL, resolution = NULL WHERE kind = ? AND ref = ? AND resolved_at IS NOT NULL`,
    [JSON.stringify(detail), now, TASK, hold.sagaId],
  )
  await addManualTask(tx, tables.manualTask, { kind: TASK, ref: hold.sagaId, detail }, now)
}

export async function resolveTask(
  tx: Tx,
  tables: Tables,
  { sagaId }: SagaHold,
  { actor, reason }: Audit,
): Promise<void> {
  await tx.run(
    `UPDATE ${tables.manualTask} SET resolved_at = ${tx.dialect.now}, resolved_by = ?, resolution = ? WHERE kind = ? AND ref = ? AND resolved_at IS NULL`,
    [actor, reason, TASK, sagaId],
  )
}
