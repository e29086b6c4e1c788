import { FlashSaleError } from '../../core/errors.js'
import type { OrderBook } from '../../core/ports.js'
import type { Activity } from '../../core/types.js'
import type { VirtualClock } from './clock.js'
import { atEveryStep, type Breach, History, type Told } from './invariants.js'
import { readLedger, SIM_REF } from './ledger.js'
import { AUDIT, activityAt, NAMES, type Name, NUMBER, short } from './names.js'
import type { WorldOptions } from './options.js'
import { Calls, SimProcess } from './process.js'
import { type RedisState, RedisStore } from './redis-store.js'
import type { SimSale } from './sale.js'
import { SimControl, simActivities } from './sim-control.js'
import { BOOK_FAULTS, SimDatabase, simOrders, type Write } from './sim-orders.js'
import { SimBroker, SimQueue } from './sim-queue.js'
import { simRedis } from './sim-redis.js'

export interface Running {
  readonly process: SimProcess
  readonly sale: SimSale
  readonly queue: SimQueue
  readonly orders: OrderBook
  readonly write: Write
}

interface Task {
  readonly what: string
  readonly process: SimProcess
}

/** What may be told to a caller when services fail; anything else is a fault of the library. */
const EXPECTED: ReadonlySet<string> = new Set([
  'OUTCOME_UNKNOWN',
  'REDIS_REFUSED',
  'NOT_WARMED',
  'DB_UNAVAILABLE',
  'STOPPED',
])

/** One sale, its processes, and all that they share. */
export class World {
  readonly calls = new Calls()
  readonly broker = new SimBroker()
  readonly control: SimControl
  readonly store: RedisStore
  readonly db: SimDatabase
  readonly running = new Map<Name, Running>()
  readonly tasks = new Set<Task>()
  readonly queued = new Set<string>()
  readonly tryAgain = new Set<string>()
  /** How often the sale had been opened when a stop was last acknowledged. */
  stopped: number | null = null
  /** Redis may be open in spite of it, until the gate reads the durable row or the reconciler repairs. */
  stopForgotten = false
  /** By how much the clock of Redis is ahead: no rule may depend on two clocks. */
  redisAheadMs = 0
  readonly trace: string[] = []
  steps = 0
  breach: Breach | null = null
  /** No more faults. */
  resting = false
  history = History.begin()
  /** States of Redis that a failover may bring back, the newest last. */
  readonly past: { readonly state: RedisState; readonly history: History }[] = []
  private seen = { store: -1, db: -1 }
  private epoch: string | undefined
  private readonly activity: Activity
  private readonly patched = new Map<string, string>()

  constructor(
    readonly clock: VirtualClock,
    readonly o: WorldOptions,
  ) {
    const now = () => clock.now
    this.activity = activityAt(clock.now)
    this.control = new SimControl(o.broken?.losesStops ?? false)
    this.store = new RedisStore(() => clock.now + this.redisAheadMs)
    this.db = new SimDatabase(this.activity, now, {
      liveKey: true,
      rowsForRefused: true,
      ...o.broken?.book,
    })
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

  get told(): Told {
    const { queued, tryAgain, stopped, control } = this
    return { queued, tryAgain, stopped: stopped === control.opened }
  }

  of(name: Name): Running {
    return this.running.get(name) as Running
  }

  /** Starts a process, in the place of the one that crashed. */
  open(name: Name): void {
    const process = new SimProcess(name)
    const { calls, broker, store, db, o, control, activity } = this
    const redis = simRedis({
      ...{ process, calls, store },
      vm: o.lua,
      patch: (lua) => this.patch(lua),
      label: (sha, args) => this.label(sha, args),
    })
    const split = o.broken?.splits ?? false
    const label = (batch: { reservations: readonly { orderNo: string }[] }) =>
      `message ${batch.reservations.map((r) => short(r.orderNo)).join(' ')}`
    const queue = new SimQueue({ process, calls, broker, label, split })
    const write = <T>(what: string, nos: readonly string[], act: () => T) =>
      calls.send(process, `database: ${what} ${nos.map(short).join(' ')}`, act, BOOK_FAULTS)
    let sale: SimSale | null = null
    const plain = simOrders(db, write, () => this.clock.now)
    const orders =
      o.broken?.orders?.(plain, { sale: () => sale as unknown as SimSale, write, store }) ?? plain
    const events = {
      onAlert: (code: string, { error }: { readonly [key: string]: unknown }) => {
        if (error !== undefined) this.thrown(process, `alert ${code}`, error)
      },
    }
    const activities = simActivities(activity)
    sale = o.sale({ redis, queue, orders, activities, control, events })
    this.running.set(name, { process, sale, queue, orders, write })
    if (name === 'worker') this.start(name, 'begins to consume', () => this.of(name).sale.consume())
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

  failOver(to: number | 'empty'): void {
    const past = to === 'empty' ? undefined : this.past[to]
    this.note(
      'Redis',
      past ? `FAILS OVER to its state of ${this.past.length - Number(to)} writes ago` : 'LOSES ALL',
    )
    this.store.restore(past?.state ?? null)
    this.stopForgotten = true
    this.history = past?.history.copy() ?? History.begin()
    this.epoch = this.keyEpoch()
  }

  note(who: string, what: string): void {
    this.steps++
    this.line(who, what)
  }

  private line(who: string, what: string): void {
    this.trace.push(`${String(this.steps).padStart(3)}  ${who.padEnd(6)}  ${what}`)
  }

  private get written(): number {
    return this.store.version + this.db.version
  }

  /** Looks at all invariants if anything was written. */
  check(): void {
    if (this.breach) return
    const { store, db } = this
    if (store.version === this.seen.store && db.version === this.seen.db) return
    this.seen = { store: store.version, db: db.version }
    const ledger = readLedger(store)
    const epoch = this.keyEpoch()
    this.breach =
      this.history.see(ledger, epoch !== this.epoch) ??
      atEveryStep(db, ledger, this.told) ??
      this.afterStop()
    this.epoch = epoch
    this.past.push({ state: store.copy(), history: this.history.copy() })
    if (this.past.length > 24) this.past.shift()
  }

  private afterStop(): Breach | null {
    const [orderNo] = this.history.took
    if (orderNo === undefined || !this.told.stopped || this.stopForgotten) return null
    return { rule: 'I13', what: `${orderNo} took a unit after a stop was acknowledged` }
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
      this.note(call.process.name, `hears the answer to ${call.label}`)
      this.calls.hear(call)
      return
    }
    const before = this.written
    this.calls.perform(call, 'at once')
    this.steps++
    // What only reads is left out of the trace once nothing can go wrong with it.
    if (this.resting && this.written === before) return
    this.line(call.process.name, call.settle ? call.label : `${call.label} (once more)`)
  }

  private keyEpoch(): string | undefined {
    return this.store.hash(`seckill:sale:{${SIM_REF.activityId}}`)?.get(' ')
  }

  private thrown(process: SimProcess, what: string, error: unknown): void {
    if (process.dead) return
    if (error instanceof FlashSaleError && EXPECTED.has(error.code)) return
    const why = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
    this.breach ??= { rule: 'throws', what: `${process.name} (${what}): ${why}` }
  }

  private patch(lua: string): string {
    const { broken } = this.o
    if (!broken?.lua) return lua
    const text = this.patched.get(lua) ?? broken.lua(lua)
    this.patched.set(lua, text)
    return text
  }

  private label(sha: string, args: readonly string[]): string {
    const name = this.o.scripts?.find((s) => s.sha === sha)?.name ?? `script ${sha.slice(0, 7)}`
    const numbers = new Set(args.join(' ').match(NUMBER) ?? [])
    return [name, ...[...numbers].map(short)].join(' ')
  }
}
