import { type ChoiceList, Choices } from './choices.js'
import type { WorldOptions } from './options.js'
import { type Run, runOnce } from './run.js'

/**
 * The shortest run found that breaks the same rule: steps are left out, many at once and then one by one, and the choices
 * of those left are made plainer, as long as the breach stays.
 */
export async function shrink(
  o: WorldOptions,
  run: Run,
  maxRuns: number,
  signal?: AbortSignal,
): Promise<Run> {
  let best = run
  let left = maxRuns
  const attempt = async (choices: ChoiceList): Promise<void> => {
    if (left <= 0 || signal?.aborted) return
    left--
    const tried = await runOnce(o, Choices.of(choices), best)
    if (tried.breach?.rule === run.breach?.rule && size(tried) < size(best)) best = tried
  }
  for (let before = Number.POSITIVE_INFINITY; size(best) < before && left > 0; ) {
    before = size(best)
    for (let chunk = best.choices.length >> 1; chunk >= 1; chunk >>= 1)
      // The first step chose the budgets: it is not left out.
      for (let at = best.choices.length - chunk; at >= 1; at -= chunk)
        await attempt([...best.choices.slice(0, at), ...best.choices.slice(at + chunk)])
    for (let step = 0; step < best.choices.length; step++) await attempt(plain(best.choices, step))
    for (let step = 0; step < best.choices.length; step++)
      for (let at = 0; at < (best.choices[step]?.length ?? 0); at++)
        if (best.choices[step]?.[at] !== 0) await attempt(plain(best.choices, step, at))
  }
  return best
}

/** The same with the plainest choice in a step, or in one place of it. */
function plain(choices: ChoiceList, step: number, at?: number): ChoiceList {
  return choices.map((made, i) =>
    i === step ? made.map((choice, j) => (at === undefined || j === at ? 0 : choice)) : made,
  )
}

const size = ({ steps, choices }: Run) =>
  steps * 1_000_000 + choices.length * 1_000 + choices.flat().filter((choice) => choice > 0).length
