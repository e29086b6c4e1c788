import * as check from '../core/check.js'

/** What a step is told besides the data. */
export interface SagaContext {
  readonly sagaId: string
  /**
   * `<saga id>:<step name>`, at most 97 characters: the same in each try of `do`, `probe` and `undo`, also after a crash.
   * Hand it to whatever takes an idempotency key; put a word in front where `undo` needs a key of its own.
   */
  readonly key: string
  /** Rises with each holder of the saga; for systems that can refuse a smaller one. */
  readonly fence: number
  /** Above 1, an earlier try may have had its effect. */
  readonly attempt: number
  /** Aborts when the lease is lost, the step takes too long, or a stop does not wait longer. */
  readonly signal: AbortSignal
}

/** The step had its effect; `data` is merged into the saga's, field by field. */
export interface StepDone<D extends object> {
  readonly status: 'done'
  readonly data?: Partial<D>
}

/** A definite no: nothing that this step did, in whatever try, is in effect. 1 to 200 characters are kept. */
export interface StepRefused {
  readonly status: 'failed'
  readonly reason: string
}

// biome-ignore lint/suspicious/noConfusingVoidType: a step without a result returns nothing
export type StepResult<D extends object> = void | StepDone<D> | StepRefused

/** Whether the effect of the step stands. */
export type Probed<D extends object> =
  | StepDone<D>
  | { readonly status: 'not-done' }
  | { readonly status: 'unknown' }

/**
 * One step. What it *returns* is definite; what it *throws* leaves the outcome unknown, and it is tried again.
 *
 * Without `probe` a step is simply repeated, so it must be idempotent by `key`; so must `undo` always. A saga that turns
 * back passes over steps without `undo`.
 */
export interface SagaStep<D extends object> {
  /** 1 to 32 of `a-z 0-9 -`, once in a saga. */
  readonly name: string
  do(data: D, context: SagaContext): Promise<StepResult<D>>
  /** Asked before a step of unknown outcome is repeated or undone: neither happens while it says `unknown` or throws. */
  probe?(data: D, context: SagaContext): Promise<Probed<D>>
  /** A refusal parks the saga at once. Without `probe` it may be called although nothing was done. */
  // biome-ignore lint/suspicious/noConfusingVoidType: nothing returned means undone
  undo?(data: D, context: SagaContext): Promise<void | StepRefused>
}

/** A kind of saga. Its steps are part of it: with other steps it is another kind (`transfer-2`). */
export interface SagaDefinition<D extends object> {
  /** 1 to 64 of `a-z 0-9 -`. */
  readonly kind: string
  /** 1 to 50, done in order, undone in reverse. */
  readonly steps: readonly SagaStep<D>[]
}

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
