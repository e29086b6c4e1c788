import * as check from '../../core/check.js'
import { Choices } from './choices.js'
import type { Breach } from './invariants.js'
import type { WorldOptions } from './options.js'
import { type Run, runOnce } from './run.js'
import { shrink } from './shrink.js'

export interface SimulateOptions extends WorldOptions {
  /** The first seed. @defaultValue 1 */
  readonly from?: number
  /** Seeds from there on. @defaultValue 100 */
  readonly seeds?: number
  /** Choices of a run before it comes to rest. @defaultValue 120 */
  readonly maxSteps?: number
  /** Runs spent on the shortest trace of a breach; 0 prints it as it was found. @defaultValue 500 */
  readonly shrinkRuns?: number
  /** Ends between two seeds. */
  readonly signal?: AbortSignal
  /** Told after each seed. */
  readonly onSeed?: (seed: number) => void
}

export interface FoundBreach extends Breach {
  readonly seed: number
  /** Steps of the shortest run that breaks the same rule, one a line. */
  readonly trace: readonly string[]
}

export interface Simulated {
  /** Seeds that were run. */
  readonly seeds: number
  readonly steps: number
  /** The first breach, after which nothing more is run. */
  readonly breach: FoundBreach | null
}

/** Runs seeds until one breaks a rule. Takes the process' timers and clock while it runs: await it alone. */
export async function simulate(o: SimulateOptions): Promise<Simulated> {
  check.object(o, 'options')
  if (typeof o.sale !== 'function') check.fail('BAD_OPTION', 'option sale', 'a function', o.sale)
  if (typeof o.lua?.run !== 'function') check.fail('BAD_OPTION', 'option lua', 'a LuaVm', o.lua)
  const from = check.option(o.from, 'from', 1, 0, 4_294_967_295)
  const seeds = check.option(o.seeds, 'seeds', 100, 1, 100_000_000)
  const maxSteps = check.option(o.maxSteps, 'maxSteps', 120, 1, 10_000)
  const shrinkRuns = check.option(o.shrinkRuns, 'shrinkRuns', 500, 0, 100_000)
  let steps = 0
  let done = 0
  for (let seed = from; done < seeds && !o.signal?.aborted; seed++) {
    const run = await runOnce(o, Choices.ofSeed(seed, maxSteps))
    steps += run.steps
    done++
    if (run.breach) {
      const shortest = await shrink(o, run, shrinkRuns, o.signal)
      return { seeds: done, steps, breach: found(seed, shortest) }
    }
    o.onSeed?.(seed)
  }
  return { seeds: done, steps, breach: null }
}

function found(seed: number, { breach, trace }: Run): FoundBreach {
  const { rule, what } = breach as Breach
  return { rule, what, seed, trace }
}
