import {
  ask,
  canHandOver,
  closeUnpaid,
  deduct,
  handOver,
  hasOwed,
  pay,
  rebuild,
  stop,
} from './acts.js'
import type { Choices } from './choices.js'
import { BUYERS, CLICKS, IDLE, KINDS, type Kind, SOME, TIMES, UNDER_WAY } from './kinds.js'
import { SIM_REF } from './ledger.js'
import { NAMES, type Name, orderNumber } from './names.js'
import type { Call } from './process.js'
import type { SimDeduct } from './sale.js'
import type { World } from './world.js'

/** Chooses what happens next: small budgets of everything, as in the model of the protocol. */
export class Steps {
  private readonly left: { faults: number; crashes: number; failovers: number }
  private readonly budget = {
    reconcile: 1,
    rebuild: 1,
    resend: 2,
    ask: 2,
    pay: 1,
    unpaid: 2,
    stop: 1,
  }
  private readonly clicks = new Map<string, number>()
  private readonly requests: SimDeduct[] = []
  private failed = false
  private readonly buyers: number
  /** Its calls wait while others go on. */
  private readonly laggard: Name | undefined
  /** What does not happen in this run: runs of few kinds go deeper. */
  private readonly without: ReadonlySet<Kind>

  constructor(
    private readonly world: World,
    private readonly choices: Choices,
  ) {
    choices.begin()
    this.left = {
      faults: choices.pick(4),
      crashes: choices.pick(3) > 0 ? 1 : 0,
      failovers: choices.pick(3) > 0 ? 1 : 0,
    }
    this.laggard = [undefined, undefined, ...NAMES][choices.pick(6)]
    this.buyers = [3, 2, 1][choices.pick(3)] as number
    this.without = new Set(SOME.filter(() => choices.pick(3) === 2))
  }

  async next(): Promise<void> {
    const { world, choices } = this
    world.clock.now++
    const under = world.calls.pending.length > 0
    const groups = under ? UNDER_WAY : IDLE
    const group = groups[choices.pick(groups.length)]
    if (group === 'call') this.call()
    else if (group === 'act') await this.act()
    else if (group === 'time') await this.time()
    else this.disaster()
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
      world.note(call.process.name, `${call.label}: ${fault.name.toUpperCase()}`)
      world.calls.perform(call, fault)
    } else {
      world.note(call.process.name, `${call.label}, and has not heard it yet`)
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
      this.failed = true
      const to = world.past.length - 2 - back
      world.failOver(back === 9 ? 'empty' : Math.max(0, to))
    }
  }

  private async act(): Promise<void> {
    const { world, choices } = this
    const kinds = KINDS.filter((kind) => this.possible(kind))
    const kind = kinds[choices.pick(kinds.length)]
    switch (kind) {
      case 'click':
        return this.click(this.app(), this.buyer())
      case 'crowd': {
        const [app, buyer] = [this.app(), this.buyer()]
        this.click(app, buyer)
        return this.click(app, (buyer + 1) % this.buyers)
      }
      case 'resend':
        this.budget.resend--
        return deduct(
          world,
          this.app(),
          this.requests[choices.pick(this.requests.length)] as SimDeduct,
          'sends once more',
        )
      case 'relay':
        return world.start('relay', 'relays', () => world.of('relay').sale.relay())
      case 'hand over':
        return this.handOver()
      case 'unpaid':
      case 'pay':
      case 'ask':
        return this.aboutOne(kind)
      case 'reconcile':
        this.budget.reconcile--
        return world.start('relay', 'reconciles', () => world.of('relay').sale.reconcile())
      case 'stop':
        this.budget.stop--
        return stop(world)
      case 'rebuild':
        this.budget.rebuild--
        return rebuild(world, true)
      case undefined:
        return
      default:
        return kind satisfies never
    }
  }

  private possible(kind: Kind): boolean {
    const { world, budget } = this
    if (this.without.has(kind)) return false
    const confirmed = () => [...world.db.rows.values()].some((row) => row.status === 'confirmed')
    switch (kind) {
      case 'resend':
        return budget.resend > 0 && this.requests.length > 0
      case 'relay':
        return hasOwed(world) && !world.busy('relay', 'relays')
      case 'hand over':
        return canHandOver(world)
      case 'unpaid':
        return budget.unpaid > 0 && confirmed()
      case 'pay':
        return budget.pay > 0 && confirmed()
      case 'ask':
        return budget.ask > 0 && world.queued.size > 0
      case 'reconcile':
        return budget.reconcile > 0
      case 'stop':
        return budget.stop > 0 && this.requests.length > 3
      case 'rebuild':
        return budget.rebuild > 0 && this.failed
      default:
        return this.requests.length < this.buyers * CLICKS
    }
  }

  private app(): Name {
    return this.choices.pick(2) === 0 ? 'app1' : 'app2'
  }

  private buyer(): number {
    return this.choices.pick(this.buyers)
  }

  private click(app: Name, buyer: number): void {
    const userId = BUYERS[buyer] as string
    const clicks = this.clicks.get(userId) ?? 0
    if (clicks === CLICKS) return
    this.clicks.set(userId, clicks + 1)
    const request: SimDeduct = {
      ...SIM_REF,
      ...{ userId, version: 'v1' },
      quantity: this.choices.pick(5) === 4 ? 2 : 1,
      orderNo: orderNumber(this.world.clock.now, userId, clicks + 1),
    }
    this.requests.push(request)
    deduct(this.world, app, request, `clicks for ${request.quantity}`)
  }

  private handOver(): void {
    const { world, choices } = this
    const { messages } = world.broker
    const which = choices.pick(messages.length + 1)
    handOver(world, which === 0 ? messages.length : 1, Math.max(0, which - 1))
  }

  private aboutOne(kind: 'unpaid' | 'pay' | 'ask'): void {
    const { world, choices, budget } = this
    budget[kind]--
    if (kind === 'ask') {
      const numbers = [...world.queued]
      ask(world, numbers[choices.pick(numbers.length)] as string)
      return
    }
    const rows = [...world.db.rows.values()].filter((row) => row.status === 'confirmed')
    const row = rows[choices.pick(rows.length)]
    if (!row) return
    if (kind === 'pay') pay(world, row)
    else closeUnpaid(world, row)
  }
}
