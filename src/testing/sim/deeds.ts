import {
  ask,
  canHandOver,
  closeUnpaid,
  deduct,
  guard,
  handOver,
  hasOwed,
  rebuild,
  reconcile,
  relay,
  stop,
  submit,
  topUp,
} from './acts.js'
import type { Choices } from './choices.js'
import { BUYERS, CLICKS, isNeeded, KINDS, type Kind, type Theme } from './kinds.js'
import { SIM_REF } from './ledger.js'
import { callBack, cancel, checkOut, keep, payOpen, payOwn, refund } from './money-acts.js'
import { type Name, orderNumber } from './names.js'
import type { SimDeduct } from './sale.js'
import type { SimChannel } from './sim-channel.js'
import type { World } from './world.js'

/** What people, channels and timers do: small budgets of everything, as in the model of the protocol. */
export class Deeds {
  private readonly budget = {
    ...{ resend: 2, ask: 2, reconcile: 1, rebuild: 1, guard: 4, stop: 1, 'top up': 2 },
    ...{ unpaid: 2, pay: 1, 'check out': 3, 'pay open': 2, keep: 3, cancel: 1, refund: 3 },
  }
  private readonly clicks = new Map<string, number>()
  private clicked = 0
  private readonly requests: SimDeduct[] = []
  private readonly buyers: number
  private readonly kinds: readonly Kind[]

  constructor(
    private readonly world: World,
    private readonly choices: Choices,
    private readonly theme: Theme,
  ) {
    this.buyers = [3, 2, 1][choices.pick(3)] as number
    const without = [...new Set(theme.kinds)].filter(
      (kind) => !isNeeded(kind, theme) && choices.pick(3) === 2,
    )
    this.kinds = theme.kinds.filter((kind) => !without.includes(kind))
    if (theme.pays) this.budget.pay++
    if (theme.acts) this.budget.rebuild++
    world.guarded = this.kinds.includes('guard') && world.of('relay').sale.guard !== undefined
  }

  act(): void {
    const possible = this.kinds.filter((kind) => this.possible(kind))
    const kind = this.choices.among(possible, KINDS)
    if (kind === undefined) return
    if (isCounted(kind, this.budget)) this.budget[kind]--
    this.how[kind]()
  }

  private readonly how: Readonly<Record<Kind, () => void>> = {
    click: () => this.click(this.app(), this.pick(this.buyers)),
    crowd: () => {
      const [app, buyer] = [this.app(), this.pick(this.buyers)]
      this.click(app, buyer)
      this.click(app, (buyer + 1) % this.buyers)
    },
    resend: () => deduct(this.world, this.app(), this.one(this.requests), 'sends once more'),
    relay: () => relay(this.world),
    'hand over': () => this.handOver(),
    reconcile: () => reconcile(this.world),
    stop: () => stop(this.world),
    rebuild: () => rebuild(this.world, true),
    guard: () => guard(this.world, this.guardian()),
    'top up': () => {
      const units = this.pick(2) === 0 ? 1 : -1
      topUp(this.world, this.app(), units, `op${this.budget['top up']}`)
    },
    ask: () => ask(this.world, this.one([...this.world.queued.keys()])),
    unpaid: () => closeUnpaid(this.world, this.one(this.confirmed())),
    pay: () => {
      payOwn(this.world, this.channel(), this.one(this.known()))
      if (!this.world.pays) this.how['call back']()
    },
    'check out': () => {
      const channel = this.channel().name
      checkOut(this.world, this.app(), this.one(this.confirmed()), channel)
    },
    'pay open': () => payOpen(this.world, ...this.one(this.open())),
    'call back': () => {
      const [channel, notice] = this.one(this.outgoing())
      callBack(this.world, this.app(), { channel, notice, lie: this.pick(6) === 5 })
    },
    keep: () => keep(this.world, this.guardian()),
    cancel: () => {
      const { orderNo, userId } = this.one(this.known())
      cancel(this.world, this.app(), orderNo, userId)
    },
    refund: () => {
      const half = (['all', 'all', 1, 2] as const)[this.pick(4)] ?? 'all'
      refund(this.world, this.app(), this.one(this.refundable()), half)
    },
  }

  private possible(kind: Kind): boolean {
    const { world, budget } = this
    if (isCounted(kind, budget) && budget[kind] <= 0) return false
    switch (kind) {
      case 'click':
      case 'crowd':
        return this.clicked < this.buyers * CLICKS
      case 'resend':
        return this.requests.length > 0
      case 'relay':
        return hasOwed(world) && !world.busy('relay', 'relays')
      case 'hand over':
        return canHandOver(world)
      case 'unpaid':
      case 'check out':
        return this.confirmed().length > 0
      case 'ask':
        return world.queued.size > 0
      case 'stop':
        return this.clicked > 0 && world.control.isOpen
      case 'rebuild':
        return world.failedOver || this.theme.acts === true
      case 'pay':
      case 'cancel':
        return this.known().length > 0
      case 'pay open':
        return this.open().length > 0
      case 'call back':
        return this.outgoing().length > 0
      case 'refund':
        return this.refundable().length > 0
      case 'guard':
        return world.guarded
      case 'keep':
      case 'reconcile':
      case 'top up':
        return true
      default:
        return kind satisfies never
    }
  }

  private pick(options: number): number {
    return this.choices.pick(options)
  }

  private one<T>(of: readonly T[]): T {
    return of[this.choices.pick(of.length)] as T
  }

  private confirmed() {
    return [...this.world.db.rows.values()].filter((row) => row.status === 'confirmed')
  }

  /** Numbers that a buyer knows, whatever became of them. */
  private known() {
    const told = this.world.pays ? [...this.world.queued.values()] : []
    return [...this.confirmed(), ...told]
  }

  private channel() {
    return this.world.channels[this.pick(2)] as SimChannel
  }

  private open() {
    return this.world.channels.flatMap((c) => c.open().map((id) => [c, id] as const))
  }

  private outgoing() {
    return this.world.channels.flatMap((c) => c.outgoing.map((notice) => [c, notice] as const))
  }

  private refundable() {
    const { payments, refunds } = this.world.money
    const asked = new Set([...refunds.values()].map((r) => r.paymentId))
    return [...payments.values()].filter((p) => p.status === 'paid' || asked.has(p.paymentId))
  }

  private app(): Name {
    return this.pick(2) === 0 ? 'app1' : 'app2'
  }

  private guardian(): Name {
    return this.pick(2) === 0 ? 'relay' : 'app2'
  }

  private click(app: Name, buyer: number): void {
    const { world } = this
    const userId = BUYERS[buyer] as string
    const clicks = this.clicks.get(userId) ?? 0
    if (clicks === CLICKS) return
    this.clicks.set(userId, clicks + 1)
    this.clicked++
    const quantity = this.pick(5) === 4 ? 2 : 1
    if (world.gated) {
      submit(world, app, userId, quantity)
      return
    }
    const orderNo = orderNumber(world.clock.now, userId, clicks + 1)
    world.names.add(orderNo, userId)
    const request: SimDeduct = { ...SIM_REF, userId, version: 'v1', quantity, orderNo }
    this.requests.push(request)
    deduct(world, app, request, `clicks for ${quantity}`)
  }

  private handOver(): void {
    const { world } = this
    const { messages } = world.broker
    const which = this.pick(messages.length + 1)
    handOver(world, which === 0 ? messages.length : 1, Math.max(0, which - 1))
  }
}

function isCounted<B extends object>(kind: Kind, budget: B): kind is Kind & keyof B {
  return kind in budget
}
