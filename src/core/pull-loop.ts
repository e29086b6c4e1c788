import { pause } from './background.js'
import type { Consumer } from './queue.js'

/** Where a {@link PullLoop} gets its messages. None of the three may reject. */
export interface PullSource<T> {
  /** What is there now; or after how many ms to ask again. */
  take(): Promise<readonly T[] | number> | readonly T[] | number
  /** Hands over and settles. */
  handle(taken: readonly T[], signal: AbortSignal): Promise<void>
  /** Pause or stop came while these were being fetched: no handler has seen them. */
  giveBack(taken: readonly T[]): Promise<void> | void
}

/** A consumer that fetches: takes, hands over, and sleeps until woken or until the source says to ask again. */
export class PullLoop<T> implements Consumer {
  private readonly abort = new AbortController()
  private napping = new AbortController()
  private paused = false
  private turn: Promise<unknown> = Promise.resolve()
  private stopping: Promise<void> | null = null
  private readonly running: Promise<void>

  constructor(
    private readonly source: PullSource<T>,
    private readonly ended: () => Promise<void> | void,
  ) {
    this.running = this.loop()
  }

  /** There may be something to take. */
  wake(): void {
    this.napping.abort()
  }

  async pause(): Promise<void> {
    this.paused = true
    await this.turn
  }

  resume(): void {
    this.paused = false
    this.wake()
  }

  stop(): Promise<void> {
    this.stopping ??= this.end()
    return this.stopping
  }

  private async end(): Promise<void> {
    this.abort.abort()
    this.wake()
    await this.running
    await this.ended()
  }

  private get held(): boolean {
    return this.paused || this.abort.signal.aborted
  }

  private async loop(): Promise<void> {
    await null // the caller of `consume` gets its Consumer first
    while (!this.abort.signal.aborted) {
      const nap = new AbortController()
      this.napping = nap // before the take: what arrives during it must not wait
      let napMs = 60_000
      if (!this.paused) {
        const turn = this.once()
        this.turn = turn
        napMs = await turn
      }
      if (napMs > 0) await pause(napMs, nap.signal)
    }
  }

  /** One hand-over; returns how long to sleep after it. */
  private async once(): Promise<number> {
    const taken = await this.source.take()
    if (typeof taken === 'number') return taken
    if (this.held) await this.source.giveBack(taken)
    else await this.source.handle(taken, this.abort.signal)
    return 0
  }
}
