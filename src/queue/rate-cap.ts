import { pause } from '../core/background.js'
import { newOrderNo } from '../core/order-no.js'
import type { RedisLike } from '../core/ports.js'
import { paceKey } from '../redis/keys.js'
import { ScriptRunner } from '../redis/run-script.js'
import { paceDone, paceRenew, paceTake } from '../redis/scripts.generated.js'

/**
 * Room to write orders to the database. What is being written counts until it is done, and then for one more second: so
 * at most `perSecond` are committed within any second, however long a commit takes.
 */
export interface RateCap {
  /** Waits until `orders` (at most `perSecond`) fit. Call the answer when they are written; null when the signal aborted first. */
  take(orders: number, signal: AbortSignal): Promise<(() => void) | null>
}

const WINDOW_MS = 1_000

/** Within this process. */
export class LocalRateCap implements RateCap {
  private writing = 0
  private readonly done: { readonly at: number; readonly orders: number }[] = []
  private inWindow = 0

  constructor(private readonly perSecond: number) {}

  async take(orders: number, signal: AbortSignal): Promise<(() => void) | null> {
    while (!signal.aborted) {
      const now = performance.now()
      for (let first = this.done[0]; first && first.at <= now - WINDOW_MS; first = this.done[0]) {
        this.inWindow -= first.orders
        this.done.shift()
      }
      const sum = this.writing + this.inWindow
      if (sum === 0 || sum + orders <= this.perSecond) {
        this.writing += orders
        return () => this.written(orders)
      }
      const first = this.done[0]
      await pause(first ? Math.max(1, first.at + WINDOW_MS - now) : 20, signal)
    }
    return null
  }

  private written(orders: number): void {
    this.writing -= orders
    this.inWindow += orders
    this.done.push({ at: performance.now(), orders })
  }
}

/** A writer that says nothing for that long has died. One that lives says every `RENEW_MS` that it is still writing. */
const LEASE_MS = 5_000
const RENEW_MS = 1_000
const TIMEOUT_MS = 500

/**
 * Over all processes that share a Redis and a name, in the order in which they ask. When Redis does not answer, each of
 * them goes on within a share of its own, so that the backlog is still confirmed, and never more than that.
 */
export class ClusterRateCap implements RateCap {
  private readonly runner: ScriptRunner
  private readonly alone: LocalRateCap
  private readonly key: string

  constructor(
    private readonly o: {
      readonly redis: RedisLike
      /** Names the database that is spared; must have passed `check.keyId`. */
      readonly name: string
      readonly perSecond: number
      /** Orders a second of this process while Redis is away. */
      readonly alonePerSecond: number
      readonly onError: (error: unknown) => void
    },
  ) {
    this.runner = new ScriptRunner(o.redis, TIMEOUT_MS)
    this.alone = new LocalRateCap(o.alonePerSecond)
    this.key = paceKey(o.name)
  }

  async take(orders: number, signal: AbortSignal): Promise<(() => void) | null> {
    const turn = newOrderNo()
    const args = { turn, orders, cap: this.o.perSecond, leaseMs: LEASE_MS }
    while (!signal.aborted) {
      let wait: number
      try {
        const reply = await this.runner.run(paceTake, { pace: this.key }, args)
        if (reply[0] === 1) return this.writing(turn, orders)
        wait = Number(reply[1])
      } catch (error) {
        this.o.onError(error)
        // The script may still run, when nobody waits for its answer; and what is written alone now is counted by this too.
        void this.end(turn, orders)
        return this.alone.take(Math.min(orders, this.o.alonePerSecond), signal)
      }
      await pause(wait, signal)
    }
    return null
  }

  /** Counts the orders until the answer is called, however long their commit takes. */
  private writing(turn: string, orders: number): () => void {
    const timer = setInterval(() => void this.renew(turn, orders), RENEW_MS)
    timer.unref?.()
    return () => {
      clearInterval(timer)
      void this.end(turn, orders)
    }
  }

  private async renew(turn: string, orders: number): Promise<void> {
    const args = { turn, orders, leaseMs: LEASE_MS }
    await this.runner.run(paceRenew, { pace: this.key }, args).catch(this.o.onError)
  }

  /**
   * Says it until Redis has answered, for as long as what it ends may count. A command that the client kept back while Redis
   * was away runs before this one, which is kept behind it.
   */
  private async end(turn: string, orders: number): Promise<void> {
    const until = performance.now() + LEASE_MS
    for (;;) {
      try {
        await this.runner.run(paceDone, { pace: this.key }, { turn, orders })
        return
      } catch (error) {
        if (performance.now() >= until) return this.o.onError(error)
      }
      await pause(TIMEOUT_MS, NEVER)
    }
  }
}

const NEVER = new AbortController().signal
