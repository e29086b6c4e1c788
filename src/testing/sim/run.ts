import type { ChoiceList, Choices } from './choices.js'
import { VirtualClock } from './clock.js'
import type { Breach } from './invariants.js'
import type { WorldOptions } from './options.js'
import { comeToRest } from './rest.js'
import { Steps } from './steps.js'
import { World } from './world.js'

export interface Run {
  readonly choices: ChoiceList
  readonly steps: number
  readonly trace: readonly string[]
  readonly breach: Breach | null
}

/** One run from beginning to rest, or to its first breach. One at a time in a process. */
export function runOnce(o: WorldOptions, choices: Choices): Promise<Run> {
  const clock = new VirtualClock()
  return clock.during(async () => {
    const world = new World(clock, o)
    await world.begin()
    const steps = new Steps(world, choices)
    while (!world.breach && choices.begin()) await steps.next()
    if (!world.breach) await comeToRest(world)
    const { trace, breach } = world
    return { choices: choices.made, steps: world.steps, trace, breach }
  })
}
