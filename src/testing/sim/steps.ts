import type { Choices } from './choices.js'
import { Deeds } from './deeds.js'
import { GROUPS, IDLE, type Theme, TIMES, UNDER_WAY } from './kinds.js'
import { NAMES, type Name } from './names.js'
import type { Call } from './process.js'
import type { World } from './world.js'

/** Chooses what happens next, and what goes wrong with it. */
export class Steps {
  private readonly left: { faults: number; crashes: number; failovers: number }
  /** Its calls wait while others go on. */
  private readonly laggard: Name | undefined
  private readonly deeds: Deeds

  constructor(
    private readonly world: World,
    private readonly choices: Choices,
    theme: Theme,
  ) {
    this.left = {
      faults: choices.pick(4),
      crashes: choices.pick(3) > 0 ? 1 : 0,
      failovers: choices.pick(3) > 0 ? 1 : 0,
    }
    this.laggard = [undefined, undefined, ...NAMES][choices.pick(6)]
    world.gated = { never: 0, sometimes: choices.pick(2), always: 1 }[theme.gate] === 1
    world.pays = theme.pays
    this.deeds = new Deeds(world, choices, theme)
  }

  async next(): Promise<void> {
    const { world, choices } = this
    world.clock.now++
    const under = world.calls.pending.length > 0
    const group = choices.among(under ? UNDER_WAY : IDLE, GROUPS)
    if (group === 'call') this.call()
    else if (group === 'act') this.deeds.act()
    else if (group === 'time') await this.time()
    else if (group === 'disaster') this.disaster()
    await world.clock.run()
    world.check()
  }

  private call(): void {
    const { world, choices, left } = this
    const isLate = (c: Call) => (c.process.name === this.laggard ? 1 : 0)
    const pending = [...world.calls.pending].sort((a, b) => isLate(a) - isLate(b))
    const call = pending[choices.pick(pending.length, 0.5)]
    if (!call) return
    const plain = call.answer !== undefined || call.settle === undefined
    const how = plain ? 0 : choices.pick(2 + call.faults.length, 0.5)
    const fault = call.faults[how - 2]
    if (how === 0 || (how > 1 && left.faults === 0)) world.answer(call)
    else if (fault) {
      left.faults--
      world.note(call.process.name, `${call.label()}: ${fault.name.toUpperCase()}`)
      world.calls.perform(call, fault)
    } else {
      world.note(call.process.name, `${call.label()}, and has not heard it yet`)
      world.calls.perform(call, 'slowly')
    }
  }

  private async time(): Promise<void> {
    const { world, choices } = this
    const how = TIMES[choices.pick(TIMES.length)]
    if (how === 'Redis') world.redisAheadMs += 3_000
    else if (how === undefined) await world.clock.tick()
    else await world.clock.jump(how)
    const what = how === 'Redis' ? ': 3 s for Redis alone' : how ? `: ${how / 1_000} s` : ''
    world.note('time', `passes${what}`)
  }

  private disaster(): void {
    const { world, choices, left } = this
    // What a disaster destroys must have been made before.
    if (world.db.rows.size === 0 && choices.pick(3) !== 2) return
    if (choices.pick(2) === 0) {
      const name = NAMES[choices.pick(NAMES.length)] as Name
      if (left.crashes === 0) return
      left.crashes--
      world.crash(name)
    } else {
      const back = choices.pick(10)
      if (left.failovers === 0) return
      left.failovers--
      world.failOver(back === 9 ? null : back)
    }
  }
}
