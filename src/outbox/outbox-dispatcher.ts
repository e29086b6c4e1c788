import { every } from '../core/background.js'
import * as check from '../core/check.js'
import type { Outbox, OutboxHandler } from '../core/outbox.js'
import type { Background } from '../core/ports.js'
import { quiet } from '../core/quiet.js'
import { deliver } from './delivery.js'

export interface OutboxDispatcherOptions {
  readonly outbox: Outbox
  /** What sends the messages of each topic; other topics are left to others. Each is served for itself. */
  readonly topics: { readonly [topic: string]: OutboxHandler }
  /** How long messages are this dispatcher's before another may take them, in ms; renewed while a handler runs. @defaultValue 15,000 */
  readonly leaseMs?: number
  /** Messages in one hand-over. @defaultValue 100 */
  readonly batch?: number
  /** How often it looks, in ms. @defaultValue 1,000 */
  readonly everyMs?: number
  /** How long one call of a handler may take before it counts as failed, in ms. @defaultValue 60,000 */
  readonly handlerTimeoutMs?: number
  /**
   * `outbox-parked` (`topic`, `bizNo`, `error`): ten tries are used up, or the handler said `dead`; there is a manual task.
   * `outbox-failed` (`topic`, `error`): the outbox could not be read or written; what was sent may be sent again.
   */
  readonly onAlert?: (code: string, detail: { readonly [key: string]: unknown }) => void
}

/**
 * Sends what was written to an outbox, at least once and in no order. Any number of processes may run one. A message that
 * fails is tried again after 1 s, 5 s, 30 s, 2 min, then every 10 min, ten times in all; then it is parked, never dropped.
 */
export class OutboxDispatcher implements Background {
  readonly #outbox: Outbox
  readonly #topics: ReadonlyMap<string, OutboxHandler>
  readonly #leaseMs: number
  readonly #batch: number
  readonly #handlerTimeoutMs: number
  readonly #alert: (code: string, detail: { readonly [key: string]: unknown }) => void
  readonly #loops: readonly Background[]
  readonly #cut = new AbortController()
  #stopping: Promise<void> | null = null

  constructor(o: OutboxDispatcherOptions) {
    check.object(o, 'options')
    if (typeof o.outbox?.take !== 'function')
      check.fail('BAD_OPTION', 'option outbox', 'an Outbox', o.outbox)
    this.#outbox = o.outbox
    this.#topics = topicsOf(o.topics)
    this.#leaseMs = check.option(o.leaseMs, 'leaseMs', 15_000, 100, 3_600_000)
    this.#batch = check.option(o.batch, 'batch', 100, 1, 1_000)
    this.#handlerTimeoutMs = check.option(
      o.handlerTimeoutMs,
      'handlerTimeoutMs',
      60_000,
      1,
      3_600_000,
    )
    this.#alert = quiet('onAlert', o.onAlert)
    const everyMs = check.option(o.everyMs, 'everyMs', 1_000, 10, 3_600_000)
    this.#loops = [...this.#topics].map(([topic, handler]) =>
      every({
        everyMs,
        work: (signal) => this.#send(topic, handler, signal),
        onError: (error) => this.#alert('outbox-failed', { topic, error }),
      }),
    )
  }

  /** @throws FlashSaleError `STOPPED` */
  async start(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.start()))
  }

  /** Lets the calls that run end and settles them; those that last longer than `drainMs` (5,000) are aborted. Idempotent. */
  stop(o?: { readonly drainMs?: number }): Promise<void> {
    this.#stopping ??= this.#drain(o)
    return this.#stopping
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  /** One round: all that is due now. Throws what the outbox throws. */
  async run(signal: AbortSignal = new AbortController().signal): Promise<void> {
    const topics = [...this.#topics]
    await Promise.all(topics.map(([topic, handler]) => this.#send(topic, handler, signal)))
  }

  async #send(topic: string, handler: OutboxHandler, stopping: AbortSignal): Promise<void> {
    const take = { topic, limit: this.#batch, leaseMs: this.#leaseMs }
    while (!stopping.aborted && !this.#cut.signal.aborted) {
      const taken = await this.#outbox.take(take)
      if (taken.length > 0)
        await deliver(taken, {
          outbox: this.#outbox,
          handler,
          leaseMs: this.#leaseMs,
          limitMs: this.#handlerTimeoutMs,
          stopping,
          cut: this.#cut.signal,
          onParked: ({ message, error }) =>
            this.#alert('outbox-parked', { topic, bizNo: message.bizNo, error }),
          onError: (error) => this.#alert('outbox-failed', { topic, error }),
        })
      if (taken.length < this.#batch) return
    }
  }

  async #drain(o?: { readonly drainMs?: number }): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop(o)))
    this.#cut.abort()
  }
}

function topicsOf(topics: OutboxDispatcherOptions['topics']): ReadonlyMap<string, OutboxHandler> {
  check.object(topics, 'option topics')
  const handlers = Object.entries(topics)
  if (handlers.length === 0) check.fail('BAD_OPTION', 'option topics', 'at least one', 'none')
  for (const [topic, handler] of handlers) {
    check.id(topic, 'option topics')
    if (typeof handler !== 'function')
      check.fail('BAD_OPTION', `option topics[${topic}]`, 'a function', handler)
  }
  return new Map(handlers)
}
