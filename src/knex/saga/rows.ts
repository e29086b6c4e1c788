import type { SagaRow } from '../../core/saga.js'
import { exact } from '../sql/dialect.js'
import type { Row } from '../sql/statements.js'

export const SAGA_SELECT =
  'saga_id, kind, state, direction, step, step_name, data, tries, fence, next_time, reason, last_error, created_at, updated_at'

export function sagaRow(row: Row): SagaRow {
  return {
    sagaId: row.saga_id as string,
    kind: row.kind as string,
    state: row.state as SagaRow['state'],
    direction: row.direction as SagaRow['direction'],
    step: exact(row.step, 'step'),
    stepName: row.step_name as string,
    data: row.data as string,
    tries: exact(row.tries, 'tries'),
    fence: exact(row.fence, 'fence'),
    nextAt: exact(row.next_time, 'next_time'),
    reason: row.reason as string | null,
    lastError: row.last_error as string | null,
    createdAt: exact(row.created_at, 'created_at'),
    updatedAt: exact(row.updated_at, 'updated_at'),
  }
}
