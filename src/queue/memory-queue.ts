import { within } from '../core/background.js'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import { handOver } from '../core/hand-over.js'
import { messageText, parseBatch } from '../core/message.js'
import { PullLoop } from '../core/pull-loop.js'
import type { BatchHandler, Consumer, Handled, Queue } from '../core/queue.js'
import { quiet } from '../core/quiet.js'
import type { Batch, Sent } from '../core/types.js'

export interface MemoryQueueOptions {
  /** Messages held at most; what does not fit stays owed in Redis. @defaultValue 10,000 */
  readonly maxMessages?: number
  /** Pause before a message is delivered again, in ms, doubled each time up to 64 times. @defaultValue 100 */
  readonly retryMs?: number
  /** Deliveries of one message before it is set aside. @defaultValue 16 */
  readonly maxAttempts?: number
  /** Told of a message that was set aside: `sale.setAside` makes an alert and a task of it. */
  readonly onDead?: (batch: Batch, why: string) => void
}

interface Message {
  readonly batch: Batch
  readonly since: number
  attempt: number
  dueAt: number
}

/**
 * A queue within the process, for tests and small installs. It does not survive a crash and says so: `send` answers
 * `unknown`, the batch stays owed in Redis, and the relay sends it again after a restart.
 */
export class MemoryQueue implements Queue {
  private readonly waiting: Message[] = []
  /** Waiting or being handled: a batch that the relay sends again is not queued twice. */
  private readonly present = new Map<string, Message>()
  private readonly consumers = new Set<PullLoop<Message>>()
  private readonly maxMessages: number
  private readonly retryMs: number
  private readonly maxAttempts: number
  private readonly onDead: (batch: Batch, why: string) => void
  private stopped = false

  constructor(o: MemoryQueueOptions = {}) {
    check.object(o, 'options')
    this.maxMessages = check.option(o.maxMessages, 'maxMessages', 10_000, 1, 10_000_000)
    this.retryMs = check.option(o.retryMs, 'retryMs', 100, 1, 60_000)
    this.maxAttempts = check.option(o.maxAttempts, 'maxAttempts', 16, 1, 1_000)
    this.onDead = quiet('onDead', o.onDead)
  }

  async start(): Promise<void> {}

  /** The signal may be left out: nothing here waits. */
  async send(batch: Batch, o?: { readonly signal: AbortSignal }): Promise<Sent> {
    const text = messageText(batch)
    if (text === null) return 'rejected'
    if (this.stopped || o?.signal.aborted) return 'unknown'
    if (this.present.size < this.maxMessages && !this.present.has(batch.batchId)) {
      // Through JSON here too: what a real queue would not carry is not carried in tests either.
      const message = { batch: parseBatch(text), since: Date.now(), attempt: 0, dueAt: 0 }
      this.present.set(batch.batchId, message)
      this.enqueue(message)
    }
    return 'unknown'
  }

  consume(handler: BatchHandler, o: { readonly maxBatches: number }): Consumer {
    if (typeof handler !== 'function') check.fail('BAD_INPUT', 'handler', 'a function', handler)
    check.object(o, 'options')
    if (this.stopped) throw new FlashSaleError('STOPPED', 'this queue was stopped')
    const maxBatches = check.int(o.maxBatches, 'maxBatches', 1, 1_000)
    const consumer = new PullLoop<Message>(
      {
        take: () => this.take(maxBatches),
        handle: (messages, signal) => this.deliver(handler, messages, signal),
        giveBack: (messages) => {
          for (const message of messages) this.enqueue(message)
        },
      },
      () => void this.consumers.delete(consumer),
    )
    this.consumers.add(consumer)
    return consumer
  }

  async lag(): Promise<{ readonly messages: number; readonly oldestAgeMs: number | null }> {
    let oldest: number | null = null
    for (const { since } of this.present.values())
      if (oldest === null || since < oldest) oldest = since
    return {
      messages: this.present.size,
      oldestAgeMs: oldest === null ? null : Math.max(0, Date.now() - oldest),
    }
  }

  /** Lets the handlers that run end, for at most `drainMs` (default 5,000). */
  async stop(o: { readonly drainMs?: number } = {}): Promise<void> {
    check.object(o, 'options')
    const drainMs = check.option(o.drainMs, 'drainMs', 5_000, 0, 600_000)
    this.stopped = true
    const stops = [...this.consumers].map((consumer) => consumer.stop())
    await within(Promise.all(stops), drainMs, () => undefined)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  private enqueue(message: Message): void {
    this.waiting.push(message)
    for (const consumer of this.consumers) consumer.wake()
  }

  /** The messages that are due, or after how many ms the next one will be. */
  private take(max: number): Message[] | number {
    const now = performance.now()
    const due: Message[] = []
    let next = 60_000
    for (let i = 0; i < this.waiting.length && due.length < max; ) {
      const message = this.waiting[i] as Message
      if (message.dueAt <= now) due.push(...this.waiting.splice(i, 1))
      else {
        next = Math.min(next, message.dueAt - now)
        i++
      }
    }
    return due.length > 0 ? due : next
  }

  private async deliver(
    handler: BatchHandler,
    messages: readonly Message[],
    signal: AbortSignal,
  ): Promise<void> {
    for (const message of messages) message.attempt++
    const attempt = Math.max(...messages.map((m) => m.attempt))
    const batches = messages.map((m) => m.batch)
    const handled = await handOver(handler, { batches, attempt, signal })
    for (const [i, message] of messages.entries()) this.settle(message, handled[i] ?? 'retry')
  }

  private settle(message: Message, handled: Handled): void {
    if (handled === 'retry' && message.attempt < this.maxAttempts) {
      message.dueAt = performance.now() + this.retryMs * 2 ** Math.min(message.attempt - 1, 6)
      this.enqueue(message)
      return
    }
    this.present.delete(message.batch.batchId)
    if (handled === 'ack') return
    const why = handled === 'dead' ? 'set aside by the consumer' : `tried ${message.attempt} times`
    this.onDead(message.batch, why)
  }
}
