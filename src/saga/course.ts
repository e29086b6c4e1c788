import type { SagaPosition } from '../core/saga.js'

/** What the way through a saga depends on. */
export type Steps = readonly { readonly name: string; readonly undo?: unknown }[]
export type Place = Pick<SagaPosition, 'state' | 'direction' | 'step' | 'stepName'>

/** After `step` was done. */
export function onward(steps: Steps, step: number): Place {
  const next = steps[step + 1]
  return next
    ? { state: 'active', direction: 'do', step: step + 1, stepName: next.name }
    : { state: 'ended', direction: 'do', step, stepName: steps[step]?.name ?? '' }
}

/** The next step to be undone, from this one backwards. */
export function backward(steps: Steps, from: number): Place {
  for (let step = from; step >= 0; step--) {
    const { name, undo } = steps[step] ?? {}
    if (name !== undefined && undo)
      return { state: 'active', direction: 'undo', step, stepName: name }
  }
  return { state: 'ended', direction: 'undo', step: 0, stepName: steps[0]?.name ?? '' }
}
