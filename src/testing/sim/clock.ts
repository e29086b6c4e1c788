interface Timer {
  readonly at: number
  readonly order: number
  readonly fire: () => void
}

const real = {
  setImmediate: globalThis.setImmediate,
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  now: Date.now,
  performanceNow: performance.now,
  abortTimeout: AbortSignal.timeout,
}

/** 2026-09-21; any fixed moment will do. */
const BEGIN = 1_790_000_000_000

/**
 * The time of a run, in the place of the process' own while it lasts: `Date.now`, `performance.now`, `setTimeout`,
 * `setImmediate` and `AbortSignal.timeout`. It moves only when it is told to.
 */
export class VirtualClock {
  now = BEGIN
  private timers: Timer[] = []
  private immediates: (() => void)[] = []
  private orders = 0

  install(): void {
    const set = (fire: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
      const timer = {
        at: this.now + Math.max(1, Math.ceil(ms)),
        order: this.orders++,
        fire: () => fire(...args),
      }
      this.timers.push(timer)
      return Object.assign(timer, { ref: () => timer, unref: () => timer })
    }
    const clear = (timer: unknown) => {
      this.timers = this.timers.filter((t) => t !== timer)
    }
    const later = (fire: (...args: unknown[]) => void, ...args: unknown[]) => {
      this.immediates.push(() => fire(...args))
    }
    Object.assign(globalThis, { setTimeout: set, clearTimeout: clear, setImmediate: later })
    Date.now = () => this.now
    performance.now = () => this.now - BEGIN
    AbortSignal.timeout = (ms) => {
      const abort = new AbortController()
      set(() => abort.abort(new DOMException('timed out', 'TimeoutError')), ms)
      return abort.signal
    }
  }

  uninstall(): void {
    const { setTimeout, clearTimeout, setImmediate } = real
    Object.assign(globalThis, { setTimeout, clearTimeout, setImmediate })
    Date.now = real.now
    performance.now = real.performanceNow
    AbortSignal.timeout = real.abortTimeout
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

  /** Passes `ms`, firing what falls due one at a time. */
  async advance(ms: number): Promise<void> {
    const end = this.now + ms
    for (let next = this.next(); next && next.at <= end; next = this.next()) await this.fire(next)
    this.now = end
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
    for (const timer of this.timers)
      if (!first || timer.at < first.at || (timer.at === first.at && timer.order < first.order))
        first = timer
    return first
  }

  private async fire(timer: Timer): Promise<void> {
    this.timers = this.timers.filter((t) => t !== timer)
    this.now = Math.max(this.now, timer.at)
    timer.fire()
    await this.run()
  }
}

/** The process' own clock, whatever is installed. */
export const realNow = (): number => real.performanceNow.call(performance)
