import * as check from '../core/check.js'
import type { SagaDefinition } from '../core/saga.js'

const MAX_STEPS = 50
const KIND = /^[a-z0-9-]{1,64}$/
const STEP_NAME = /^[a-z0-9-]{1,32}$/

/** Throws `BAD_OPTION`. The steps stay the host's own objects, which may be of a class. */
export function checkDefinition<D extends object>(value: SagaDefinition<D>): SagaDefinition<D> {
  const bad = (name: string, wanted: string, got: unknown): never =>
    check.fail('BAD_OPTION', `option definition${name}`, wanted, got)
  if (typeof value !== 'object' || value === null) bad('', 'an object', value)
  const { kind, steps } = value
  if (typeof kind !== 'string' || !KIND.test(kind)) bad('.kind', '1 to 64 of a-z 0-9 -', kind)
  if (!Array.isArray(steps) || steps.length < 1 || steps.length > MAX_STEPS)
    bad('.steps', `an array of 1 to ${MAX_STEPS}`, steps)
  const names = new Set<string>()
  for (const [i, step] of steps.entries()) {
    const at = `.steps[${i}]`
    if (typeof step !== 'object' || step === null) bad(at, 'an object', step)
    if (typeof step.name !== 'string' || !STEP_NAME.test(step.name))
      bad(`${at}.name`, '1 to 32 of a-z 0-9 -', step.name)
    if (names.has(step.name)) bad(`${at}.name`, 'named once', step.name)
    names.add(step.name)
    if (typeof step.do !== 'function') bad(`${at}.do`, 'a function', step.do)
    for (const part of ['probe', 'undo'] as const)
      if (step[part] !== undefined && typeof step[part] !== 'function')
        bad(`${at}.${part}`, 'a function', step[part])
  }
  return { kind, steps: [...steps] }
}
