import type { Activity } from '../../core/types.js'
import type { VirtualClock } from './clock.js'
import type { Breach } from './invariants.js'
import { SIM_REF } from './ledger.js'
import { AUDIT, NAMES, type Name, Names } from './names.js'
import type { WorldOptions } from './options.js'
import { Calls, type SimProcess } from './process.js'
import { RedisStore } from './redis-store.js'
import { SimChannel } from './sim-channel.js'
import { SimControl } from './sim-control.js'
import { SimDatabase } from './sim-database.js'
import { SimFences, SimLeases } from './sim-keeping.js'
import { SimMoney } from './sim-money.js'
import { SimBroker } from './sim-queue.js'
import { SimRedis } from './sim-redis.js'
import { Watch } from './watch.js'
import { isExpected, type Running, wire } from './wire.js'

interface Task {
  readonly what: string
  readonly process: SimProcess
}

/** Whose a number is, and what he was told of it. */
export interface Bought {
  readonly orderNo: string
  readonly userId: string
  readonly quantity: number
}

/** One sale, its processes, and all that they share. */
export class World {
  readonly names = new Names()
  readonly calls = new Calls()
  readonly broker = new SimBroker()
  readonly channels = [new SimChannel('a'), new SimChannel('b')] as const
  readonly control: SimControl
  readonly store: RedisStore
  readonly redis: SimRedis
  readonly db: SimDatabase
  readonly money: SimMoney
  readonly fences = new SimFences()
  readonly leases: SimLeases
  readonly watch = new Watch(this)
  readonly tasks = new Set<Task>()
  /** Numbers that were answered "queued", or whose outcome was unknown. */
  readonly queued = new Map<string, Bought>()
  readonly tryAgain = new Set<string>()
  /** By how much the clock of Redis is ahead: no rule may depend on two clocks. */
  redisAheadMs = 0
  /** All clicks go through the gate. */
  gated = false
  /** Buyers pay by themselves, and deadlines of payment pass. */
  pays = false
  /** A guardian watches Redis. */
  guarded = false
  failedOver = false
  readonly trace: string[] = []
  steps = 0
  breach: Breach | null = null
  /** No more faults. */
  resting = false
  private readonly running = new Map<Name, Running>()

  constructor(
    readonly clock: VirtualClock,
    readonly o: WorldOptions,
    activity: Activity,
  ) {
    const { broken, lua } = o
    const now = () => clock.now
    this.control = new SimControl(broken?.control ?? {})
    this.store = new RedisStore(() => clock.now + this.redisAheadMs)
    this.redis = new SimRedis(this.store, lua, patched(broken?.lua))
    this.db = new SimDatabase(activity, now, {
      ...{ liveKey: true, rowsForRefused: true, lateIsNew: true, refundsAddUp: true },
      ...broken?.book,
    })
    this.leases = new SimLeases(now)
    this.money = new SimMoney(this.db, now, () => this.control.isOpen)
  }

  async begin(): Promise<void> {
    for (const name of NAMES) this.open(name)
    const { sale } = this.of('relay')
    this.start('relay', 'warms up', async () => {
      await sale.warmUp(SIM_REF.activityId, AUDIT)
      await sale.control(SIM_REF.activityId, 'open', AUDIT)
    })
    await this.drain()
    this.trace.length = 0
    this.steps = 0
  }

  of(name: Name): Running {
    return this.running.get(name) as Running
  }

  private open(name: Name): void {
    const running = wire(this, name)
    this.running.set(name, running)
    if (name === 'worker') this.start(name, 'begins to consume', () => running.sale.consume())
  }

  hears(bought: Bought): void {
    this.queued.set(bought.orderNo, bought)
  }

  /** Begins something in a process; what it waits for are events. */
  start(name: Name, what: string, work: () => Promise<unknown>): void {
    const { process } = this.of(name)
    const task = { what, process }
    this.tasks.add(task)
    this.note(name, what)
    const end = () => void this.tasks.delete(task)
    work().then(end, (error: unknown) => {
      end()
      this.thrown(process, what, error)
    })
  }

  busy(name: Name, what: string): boolean {
    const { process } = this.of(name)
    return [...this.tasks].some((task) => task.process === process && task.what.startsWith(what))
  }

  crash(name: Name): void {
    const { process } = this.of(name)
    this.note(name, 'CRASHES, and is started again')
    this.calls.crash(process)
    for (const task of this.tasks) if (task.process === process) this.tasks.delete(task)
    this.open(name)
  }

  /** To its state before the last so many writes; null: it loses everything. */
  failOver(back: number | null): void {
    this.note(
      'Redis',
      back === null ? 'LOSES ALL' : `FAILS OVER to its state of ${back + 1} writes ago`,
    )
    this.failedOver = true
    this.watch.failOver(back)
  }

  note(who: string, what: string): void {
    this.steps++
    this.line(who, what)
  }

  private line(who: string, what: string): void {
    const text = this.names.short(what)
    this.trace.push(`${String(this.steps).padStart(3)}  ${who.padEnd(6)}  ${text}`)
  }

  /** Rises with every write, wherever. */
  get written(): number {
    const [a, b] = this.channels
    return this.store.version + this.db.version + a.version + b.version
  }

  check(): void {
    this.breach ??= this.watch.check()
  }

  /** Answers everything, in order and without a fault, and lets time pass while somebody waits for it. */
  async drain(): Promise<void> {
    for (let i = 0; !this.breach; i++) {
      await this.clock.run()
      this.check()
      if (i > 2_000) this.breach = { rule: 'rest', what: 'the library never comes to rest' }
      const [call] = this.calls.pending
      if (call) {
        this.clock.now++
        this.answer(call)
      } else if (this.tasks.size === 0 || !(await this.clock.tick())) return
    }
  }

  answer(call: (typeof this.calls.pending)[number]): void {
    if (call.answer) {
      this.note(call.process.name, `hears the answer to ${call.label()}`)
      this.calls.hear(call)
      return
    }
    const before = this.written
    this.calls.perform(call, 'at once')
    this.steps++
    // What only reads is left out of the trace once nothing can go wrong with it.
    if (this.resting && this.written === before) return
    this.line(call.process.name, call.settle ? call.label() : `${call.label()} (once more)`)
  }

  thrown(process: SimProcess, what: string, error: unknown): void {
    if (process.dead || isExpected(error)) return
    const why = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
    this.breach ??= { rule: 'throws', what: `${process.name} (${what}): ${why}` }
  }
}

/** Each text is changed once. */
function patched(change?: (lua: string) => string): (lua: string) => string {
  if (!change) return (lua) => lua
  const changed = new Map<string, string>()
  return (lua) => {
    const text = changed.get(lua) ?? change(lua)
    changed.set(lua, text)
    return text
  }
}
