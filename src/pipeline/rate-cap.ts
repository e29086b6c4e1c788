import { pause } from '../core/background.js'

/** At most `perSecond` orders begin within any second: a log of the last second's starts, in one process. */
export class RateCap {
  private readonly starts: { at: number; orders: number }[] = []
  private inWindow = 0

  constructor(private readonly perSecond: number) {}

  /** Waits until `orders` (at most `perSecond`) fit; false when the signal aborted first. */
  async take(orders: number, signal: AbortSignal): Promise<boolean> {
    for (;;) {
      const now = performance.now()
      while (this.starts[0] && this.starts[0].at <= now - 1_000)
        this.inWindow -= (this.starts.shift() as { orders: number }).orders
      const first = this.starts[0]
      if (!first || this.inWindow + orders <= this.perSecond) {
        this.starts.push({ at: now, orders })
        this.inWindow += orders
        return true
      }
      await pause(Math.max(1, first.at + 1_000 - now), signal)
      if (signal.aborted) return false
    }
  }
}
