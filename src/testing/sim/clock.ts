import { AsyncLocalStorage } from 'node:async_hooks'

interface Timer {
  readonly at: number
  readonly order: number
  readonly fire: () => void
}

interface Repeated {
  next: Timer | null
}

const real = {
  setImmediate: globalThis.setImmediate,
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setInterval: globalThis.setInterval,
  clearInterval: globalThis.clearInterval,
  now: Date.now,
  performanceNow: performance.now,
  abortTimeout: AbortSignal.timeout,
}

/** 2026-09-21; any fixed moment will do. */
const BEGIN = 1_790_000_000_000

/** Who runs within a simulation; whatever else the process does keeps its own time. */
const within = new AsyncLocalStorage<VirtualClock>()

/**
 * The time of a run, for all that runs within {@link during}: `Date.now`, `performance.now`, `setTimeout`, `setInterval`,
 * `setImmediate` and `AbortSignal.timeout`. It moves only when it is told to, and by a millisecond whenever somebody reads the date: so no two
 * numbers are made in the same one, and their order does not depend on the chance in them.
 */
export class VirtualClock {
  now = BEGIN
  private timers: Timer[] = []
  private immediates: (() => void)[] = []
  private orders = 0

  /** Runs `work` in this time. One at a time. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    install()
    try {
      return await within.run(this, work)
    } finally {
      uninstall()
    }
  }

  set(fire: () => void, ms: number): Timer {
    const timer = { at: this.now + Math.max(1, Math.ceil(ms)), order: this.orders++, fire }
    this.timers.push(timer)
    return timer
  }

  clear(timer: unknown): void {
    this.timers = this.timers.filter((t) => t !== timer)
  }

  /** What is returned stands for all of its timers. */
  repeat(fire: () => void, ms: number): Repeated {
    const repeated: Repeated = { next: null }
    const again = () => {
      repeated.next = this.set(again, ms)
      fire()
    }
    repeated.next = this.set(again, ms)
    return repeated
  }

  soon(fire: () => void): void {
    this.immediates.push(fire)
  }

  get elapsed(): number {
    return this.now - BEGIN
  }

  /** Lets everything that can go on without time or an answer go on. */
  async run(): Promise<void> {
    do {
      const due = this.immediates
      this.immediates = []
      for (const fire of due) fire()
      // All promise callbacks run before it.
      await new Promise((resolve) => real.setImmediate(resolve))
    } while (this.immediates.length > 0)
  }

  /** Passes `ms` at once, as for a process that was suspended: what fell due meanwhile fires once. */
  async jump(ms: number): Promise<void> {
    this.now += ms
    for (const timer of this.timers.filter((t) => t.at <= this.now).sort(byTime))
      if (this.timers.includes(timer)) await this.fire(timer)
  }

  /** Goes on to the next timer; false when there is none. */
  async tick(): Promise<boolean> {
    const next = this.next()
    if (!next) return false
    await this.fire(next)
    return true
  }

  private next(): Timer | undefined {
    let first: Timer | undefined
    for (const timer of this.timers) if (!first || byTime(timer, first) < 0) first = timer
    return first
  }

  private async fire(timer: Timer): Promise<void> {
    this.timers = this.timers.filter((t) => t !== timer)
    this.now = Math.max(this.now, timer.at)
    timer.fire()
    await this.run()
  }
}

const byTime = (a: Timer, b: Timer) => a.at - b.at || a.order - b.order

type Callback = (...args: unknown[]) => void

function install(): void {
  const setTimeout = (fire: Callback, ms?: number, ...args: unknown[]) => {
    const clock = within.getStore()
    if (!clock) return real.setTimeout(fire, ms, ...args)
    const timer = clock.set(() => fire(...args), ms ?? 0)
    return Object.assign(timer, { ref: () => timer, unref: () => timer })
  }
  const clearTimeout = (timer: unknown) => {
    within.getStore()?.clear(timer)
    real.clearTimeout(timer as NodeJS.Timeout)
  }
  const setInterval = (fire: Callback, ms?: number, ...args: unknown[]) => {
    const clock = within.getStore()
    if (!clock) return real.setInterval(fire, ms, ...args)
    const repeated = clock.repeat(() => fire(...args), ms ?? 0)
    return Object.assign(repeated, { ref: () => repeated, unref: () => repeated })
  }
  const clearInterval = (repeated: unknown) => {
    const clock = within.getStore()
    if (clock) clock.clear((repeated as Repeated | undefined)?.next)
    else real.clearInterval(repeated as NodeJS.Timeout)
  }
  const setImmediate = (fire: Callback, ...args: unknown[]) => {
    const clock = within.getStore()
    return clock ? clock.soon(() => fire(...args)) : real.setImmediate(fire, ...args)
  }
  Object.assign(globalThis, {
    ...{ setTimeout, clearTimeout, setInterval, clearInterval, setImmediate },
  })
  Date.now = () => {
    const clock = within.getStore()
    return clock ? ++clock.now : real.now()
  }
  performance.now = () => within.getStore()?.elapsed ?? real.performanceNow.call(performance)
  AbortSignal.timeout = (ms) => {
    const clock = within.getStore()
    if (!clock) return real.abortTimeout.call(AbortSignal, ms)
    const abort = new AbortController()
    clock.set(() => abort.abort(new DOMException('timed out', 'TimeoutError')), ms)
    return abort.signal
  }
}

function uninstall(): void {
  const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate } = real
  Object.assign(globalThis, {
    ...{ setTimeout, clearTimeout, setInterval, clearInterval, setImmediate },
  })
  Date.now = real.now
  performance.now = real.performanceNow
  AbortSignal.timeout = real.abortTimeout
}
