import { describe } from '../core/describe.js'
import type { SagaContext, SagaPosition, SagaStep, StepDone, StepResult } from '../core/saga.js'
import { storable } from '../core/storable.js'

/**
 * What came of one try of a step. `stands`: a probe found the effect that is to be undone. `absent`: it found none.
 * `again`: unknown, to be tried later.
 */
export type Outcome =
  | { readonly kind: 'done' | 'stands'; readonly data: object }
  | { readonly kind: 'absent' }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'again'; readonly error: string }

/** Never rejects. */
export async function attempt<D extends object>(
  direction: SagaPosition['direction'],
  step: SagaStep<D>,
  data: D,
  context: SagaContext,
): Promise<Outcome> {
  try {
    switch (direction) {
      case 'do': {
        const before = context.attempt > 1 ? await probe(step, data, context) : null
        if (before && before.kind !== 'absent') return before
        return resultOf(await step.do(data, context), 'do')
      }
      case 'turn': {
        const before = await probe(step, data, context)
        return before?.kind === 'done' || !before
          ? { kind: 'stands', data: before?.data ?? {} }
          : before
      }
      case 'undo':
        return resultOf(await step.undo?.(data, context), 'undo')
      default:
        return direction satisfies never
    }
  } catch (error) {
    return { kind: 'again', error: storable(describe(error), 500) }
  }
}

/** Null without a probe. */
async function probe<D extends object>(step: SagaStep<D>, data: D, context: SagaContext) {
  if (!step.probe) return null
  const found = await step.probe(data, context)
  switch (found?.status) {
    case 'done':
      return { kind: 'done', data: patchOf(found) } as const
    case 'not-done':
      return { kind: 'absent' } as const
    case 'unknown':
      return { kind: 'again', error: 'the probe does not know' } as const
    default:
      throw new TypeError('a probe must return a status: done, not-done or unknown')
  }
}

/** Hosts without types return what they like; only what is understood counts as definite. */
function resultOf(result: StepResult<object>, method: string): Outcome {
  if (result === undefined || result === null) return { kind: 'done', data: {} }
  if (result.status === 'done') return { kind: 'done', data: patchOf(result) }
  if (result.status === 'failed')
    return { kind: 'refused', reason: storable(String(result.reason), 200) }
  throw new TypeError(`${method} must return nothing, or a status: done or failed`)
}

function patchOf({ data }: StepDone<object>): object {
  if (data === undefined) return {}
  if (typeof data !== 'object' || data === null) throw new TypeError('data must be an object')
  return data
}
