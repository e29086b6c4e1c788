import type { SagaRow } from '../core/saga.js'
import { decode } from './data.js'

/**
 * What a host sees of a saga. `running`: its steps are being done. `undoing`: a step refused, and those before it are
 * being undone. `done`, `undone`: at rest. `parked`: waits for a person.
 */
export interface Saga<D extends object> {
  readonly sagaId: string
  readonly status: 'running' | 'undoing' | 'done' | 'undone' | 'parked'
  /** Name of the step it is at, or ended with. */
  readonly step: string
  /** As begun, with what its steps returned; null when it cannot be read. */
  readonly data: D | null
  readonly tries: number
  /** Why it turned back; null while it has not. */
  readonly reason: string | null
  readonly lastError: string | null
  /** Epoch ms by the database's clock, as are the others: no sooner is it tried again. */
  readonly nextAt: number
  readonly createdAt: number
  readonly updatedAt: number
}

export function viewOf<D extends object>(row: SagaRow): Saga<D> {
  const { sagaId, tries, reason, lastError, nextAt, createdAt, updatedAt } = row
  return {
    sagaId,
    status: statusOf(row),
    step: row.stepName,
    data: decode(row.data) as D | null,
    tries,
    reason,
    lastError,
    nextAt,
    createdAt,
    updatedAt,
  }
}

function statusOf({ state, direction }: SagaRow): Saga<object>['status'] {
  const forward = direction === 'do'
  switch (state) {
    case 'parked':
      return 'parked'
    case 'active':
      return forward ? 'running' : 'undoing'
    case 'ended':
      return forward ? 'done' : 'undone'
    default:
      return state satisfies never
  }
}
