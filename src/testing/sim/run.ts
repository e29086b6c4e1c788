import type { ChoiceList, Choices } from './choices.js'
import { VirtualClock } from './clock.js'
import type { Breach } from './invariants.js'
import { THEMES, type Theme } from './kinds.js'
import { activityAt } from './names.js'
import type { WorldOptions } from './options.js'
import { comeToRest } from './rest.js'
import { Steps } from './steps.js'
import { World } from './world.js'

export interface Run {
  readonly choices: ChoiceList
  readonly steps: number
  readonly trace: readonly string[]
  readonly breach: Breach | null
  /** It came to rest, or was about to. */
  readonly rested: boolean
}

/** What a run need not go beyond, when it is to be shorter than another. */
export type Bound = Pick<Run, 'steps' | 'rested'>

/** Where deadlines pass, the next long pause is past them. */
const PAY_WITHIN_MS = 600_000

/** One run from beginning to rest, or to its first breach. One at a time in a process. */
export function runOnce(o: WorldOptions, choices: Choices, bound?: Bound): Promise<Run> {
  const clock = new VirtualClock()
  return clock.during(async () => {
    choices.begin()
    const theme = THEMES[choices.pick(THEMES.length)] as Theme
    const activity = theme.pays ? activityAt(clock.now, PAY_WITHIN_MS) : activityAt(clock.now)
    const world = new World(clock, o, activity)
    await world.begin()
    const steps = new Steps(world, choices, theme)
    const most = bound?.steps ?? Number.POSITIVE_INFINITY
    while (!world.breach && world.steps <= most && choices.begin()) await steps.next()
    if (!world.breach && bound?.rested !== false) await comeToRest(world)
    const { trace, breach, names } = world
    const told = breach && { ...breach, what: names.short(breach.what) }
    return { choices: choices.made, steps: world.steps, trace, breach: told, rested: world.resting }
  })
}
