import { pause, unlessAborted } from '../core/background.js'
import { handOver } from '../core/hand-over.js'
import { parseBatch } from '../core/message.js'
import type { PullSource } from '../core/pull-loop.js'
import type { BatchHandler, Handled } from '../core/queue.js'
import type { Batch } from '../core/types.js'
import type { Inbox, Received } from './inbox.js'
import { correctHandle } from './receipt.js'
import type { RocketmqConsumer } from './sdk.js'

export interface MessageSourceOptions {
  /** Null until the queue was started. */
  readonly broker: () => { readonly client: RocketmqConsumer; readonly inbox: Inbox } | null
  readonly handler: BatchHandler
  readonly maxBatches: number
  readonly maxAttempts: number
  readonly retryMs: number
  readonly invisibleMs: number
  /** What handlers of this process hold, to be counted. */
  readonly held: Set<Received>
  /** Aborted when the queue no longer waits for handlers: what they hold may go to others. */
  readonly abandoned: AbortSignal
  /** Neither may throw. */
  readonly onDead: (message: Batch | string, why: string) => void
  readonly onError: (error: unknown) => void
}

/** How a message ends. */
type Ending = { readonly received: Received } & (
  | { readonly what: 'ack' }
  | { readonly what: 'retry'; readonly afterMs: number }
  | { readonly what: 'dead'; readonly message: Batch | string; readonly why: string }
)

/** Where the broker cannot be asked, asking faster does not help it. */
const TROUBLE_MS = 500
const SETTLE_AGAIN_MS = 200
/** A broker that answers "nothing" at once, instead of after its 5 s, is not asked again at once. */
const EMPTY_MS = 50
/** The handle of a message that others may have by now, or that was acknowledged before: nothing is left to do. */
const INVALID_HANDLE = 40_013

/** What one consumer takes, hands over and settles. */
export class MessageSource implements PullSource<Received> {
  private held = new AbortController()

  constructor(private readonly o: MessageSourceOptions) {}

  /** Pause or stop: a consumer that waits for messages waits no longer. */
  interrupt(): void {
    this.held.abort()
  }

  resume(): void {
    if (this.held.signal.aborted) this.held = new AbortController()
  }

  async take(): Promise<readonly Received[] | number> {
    const broker = this.o.broker()
    if (!broker) return EMPTY_MS
    const ask = broker.inbox.ask(this.o.maxBatches)
    try {
      const received = await unlessAborted(ask, this.held.signal, () => null)
      if (received === null) {
        broker.inbox.leave(ask)
        return EMPTY_MS
      }
      return received.length > 0 ? received : EMPTY_MS
    } catch (error) {
      this.o.onError(error)
      return TROUBLE_MS
    }
  }

  async handle(taken: readonly Received[], signal: AbortSignal): Promise<void> {
    for (const received of taken) this.o.held.add(received)
    const done = new AbortController()
    const renewing = this.keepInvisible(taken, done.signal)
    try {
      const read = taken.map((received) => this.read(received))
      const fit = read.filter((r) => 'batch' in r)
      const unfit = read.filter((r) => 'what' in r)
      const endings = await this.handOver(fit, signal)
      done.abort()
      await renewing // a renewal makes the handle of before invalid, also for the acknowledgement
      await this.settle([...unfit, ...endings], signal)
    } finally {
      for (const received of taken) this.o.held.delete(received)
    }
  }

  /** To the next consumer of this process: given back to the broker they would come late, and count as delivered. */
  giveBack(taken: readonly Received[]): void {
    this.o.broker()?.inbox.leave(Promise.resolve(taken))
  }

  /** One that nobody can read, or that was handed out often enough and never settled, is seen by no handler. */
  private read(received: Received): { received: Received; batch: Batch } | Ending {
    const text = received.message.body.toString()
    try {
      const batch = parseBatch(text)
      const attempt = attemptOf(received)
      if (attempt <= this.o.maxAttempts) return { received, batch }
      return dead(received, batch, `handed out ${attempt - 1} times and never settled`)
    } catch (error) {
      return dead(received, text, error instanceof Error ? error.message : String(error))
    }
  }

  private async handOver(
    fit: readonly { readonly received: Received; readonly batch: Batch }[],
    signal: AbortSignal,
  ): Promise<readonly Ending[]> {
    if (fit.length === 0) return []
    const batches = fit.map((f) => f.batch)
    const attempt = Math.max(...fit.map((f) => attemptOf(f.received)))
    const handled = await handOver(this.o.handler, { batches, attempt, signal })
    return fit.map((f, i) => this.ending(f.received, f.batch, handled[i] ?? 'retry'))
  }

  private ending(received: Received, batch: Batch, handled: Handled): Ending {
    const attempt = attemptOf(received)
    if (handled === 'ack') return { received, what: 'ack' }
    if (handled === 'dead') return dead(received, batch, 'set aside by the consumer')
    if (attempt >= this.o.maxAttempts) return dead(received, batch, `tried ${attempt} times`)
    const afterMs = this.o.retryMs * 2 ** Math.min(attempt - 1, 6)
    return { received, what: 'retry', afterMs }
  }

  /** Each on its own: an acknowledgement that fails is repeated, and none waits for the others. */
  private async settle(endings: readonly Ending[], signal: AbortSignal): Promise<void> {
    await Promise.all(endings.map((ending) => this.settleOne(ending, signal)))
  }

  /**
   * Repeats while the message is invisible to others; then, or once stopped, it comes again by itself, as a duplicate. One
   * set aside is told first and acknowledged then: told twice is better than never.
   */
  private async settleOne(ending: Ending, signal: AbortSignal): Promise<void> {
    const broker = this.o.broker()
    const { message } = ending.received
    if (!broker || this.o.abandoned.aborted) return
    if (ending.what === 'dead') this.o.onDead(ending.message, ending.why)
    const until = performance.now() + this.o.invisibleMs
    for (;;) {
      try {
        if (ending.what === 'retry')
          await broker.client.changeInvisibleDuration(message as never, ending.afterMs)
        else await broker.client.ack(message as never)
        return
      } catch (error) {
        this.o.onError(error)
        if ((error as { readonly code?: unknown }).code === INVALID_HANDLE) return
      }
      await pause(SETTLE_AGAIN_MS, signal)
      if (signal.aborted || performance.now() >= until) return
    }
  }

  /** However long a handler takes, nobody else gets what it holds while this process lives. */
  private async keepInvisible(taken: readonly Received[], done: AbortSignal): Promise<void> {
    const { invisibleMs, abandoned } = this.o
    // The first may have lain in the inbox for half its time.
    for (let restMs = invisibleMs / 6; ; restMs = invisibleMs / 3) {
      await pause(restMs, done)
      const broker = this.o.broker()
      if (done.aborted || abandoned.aborted || !broker) return
      const renewals = taken.map(async ({ message }) => {
        try {
          await broker.client.changeInvisibleDuration(message as never, invisibleMs)
          correctHandle(message)
        } catch (error) {
          this.o.onError(error)
        }
      })
      await Promise.all(renewals)
    }
  }
}

const attemptOf = ({ message }: Received) => message.deliveryAttempt ?? 1

function dead(received: Received, message: Batch | string, why: string): Ending {
  return { received, what: 'dead', message, why: why.slice(0, 200) }
}
