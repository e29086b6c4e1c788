import { orderNoMadeAt } from '../../core/order-no.js'
import { atEveryStep, type Breach, History, type Told } from './invariants.js'
import { readLedger, SIM_REF, type SimLedger } from './ledger.js'
import { lawsOfMoney } from './money-laws.js'
import type { RedisState } from './redis-store.js'
import { REFRESH_MS } from './sale.js'
import type { World } from './world.js'

/** How long after a stop that a failover took back a click may pass the gate: its copy of the row may be twice as old. */
const GATE_MS = 2 * REFRESH_MS

/** States of Redis that a failover may bring back. */
const MAX_PAST = 24

/** Looks at the laws after every step, and remembers what Redis was. */
export class Watch {
  /** The newest last. */
  readonly past: { readonly state: RedisState; readonly history: History }[] = []
  /** How often Redis failed over. */
  failovers = 0
  private history = History.begin()
  private seen = -1
  private epoch: string | undefined
  /** The stop that was acknowledged last: how often Redis had failed over when it was begun, and the sale been opened. */
  private stopped: {
    readonly failovers: number
    readonly opened: number
    readonly at: number
  } | null = null

  constructor(private readonly world: World) {}

  /** A stop was acknowledged that was begun after so many failovers. */
  stop(failovers: number): void {
    const { control, clock } = this.world
    this.stopped = { failovers, opened: control.opened, at: clock.now }
  }

  /** Redis may have forgotten the last stop: then it may be open until somebody repairs it. */
  private get stopForgotten(): boolean {
    return this.stopped?.failovers !== this.failovers
  }

  get told(): Told {
    const { queued, tryAgain, control } = this.world
    return { queued, tryAgain, stopped: this.stopped?.opened === control.opened }
  }

  /** Redis becomes what it was before the last `back` + 1 writes, or empty. */
  failOver(back: number | null): void {
    const past = back === null ? undefined : this.past[Math.max(0, this.past.length - 2 - back)]
    this.world.store.restore(past?.state ?? null)
    this.failovers++
    this.history = past?.history.copy() ?? History.begin()
    this.epoch = this.keyEpoch()
  }

  /** What is broken, if anything was written. */
  check(): Breach | null {
    const { store, db, money, channels, written, control } = this.world
    if (control.overruled)
      return { rule: 'I13', what: 'the library has opened what a person had stopped' }
    if (written === this.seen) return null
    this.seen = written
    const ledger = readLedger(store)
    const epoch = this.keyEpoch()
    const anew = epoch !== this.epoch
    this.epoch = epoch
    const breach =
      this.history.see(ledger, anew) ??
      atEveryStep(db, ledger, this.told) ??
      lawsOfMoney(db, money, channels) ??
      this.afterStop(ledger)
    if (this.past.at(-1)?.state.version !== store.version) this.remember()
    return breach
  }

  private remember(): void {
    this.past.push({ state: this.world.store.copy(), history: this.history.copy() })
    if (this.past.length > MAX_PAST) this.past.shift()
  }

  private afterStop(ledger: SimLedger | null): Breach | null {
    if (!this.told.stopped) return null
    if (ledger?.open && !this.stopForgotten)
      return { rule: 'I13', what: 'the sale is open, and its stop was acknowledged' }
    const end = (this.stopped?.at ?? 0) + GATE_MS
    for (const orderNo of this.history.took)
      if (!this.stopForgotten || this.passedGate(orderNo, end))
        return { rule: 'I13', what: `${orderNo} took a unit after a stop was acknowledged` }
    for (const orderNo of this.world.db.everConfirmed)
      if (this.passedGate(orderNo, end))
        return { rule: 'I14', what: `${orderNo} was made after a stop, and is confirmed` }
    return null
  }

  private passedGate(orderNo: string, end: number): boolean {
    return this.world.gated && (orderNoMadeAt(orderNo) ?? 0) > end
  }

  private keyEpoch(): string | undefined {
    return this.world.store.hash(`seckill:sale:{${SIM_REF.activityId}}`)?.get(' ')
  }
}
