import { pause } from '../core/background.js'
import * as check from '../core/check.js'
import type { Consumer, Delivery, Queue } from '../core/ports.js'
import type { Batch, Sent } from '../core/types.js'

export interface MemoryQueueOptions {
  /** Messages held at most; what does not fit stays owed in Redis. @defaultValue 10,000 */
  readonly maxMessages?: number
  /** Pause before a message is delivered again, in ms, doubled each time up to 64 times. @defaultValue 100 */
  readonly retryMs?: number
  /** Deliveries of one message before it is set aside. @defaultValue 16 */
  readonly maxAttempts?: number
  /** Told of a message that was set aside. */
  readonly onDead?: (batch: Batch) => void
}

interface Message {
  readonly batch: Batch
  readonly since: number
  attempt: number
  dueAt: number
}

type Handler = (delivery: Delivery) => Promise<'ack' | 'retry' | 'dead'>

/**
 * A queue within the process, for tests and small installs. It does not survive a crash and says so: `send` answers
 * `unknown`, the batch stays owed in Redis, and the relay sends it again after a restart.
 */
export class MemoryQueue implements Queue {
  private readonly waiting: Message[] = []
  /** Waiting or being handled: a batch that the relay sends again is not queued twice. */
  private readonly present = new Map<string, Message>()
  private readonly consumers = new Set<MemoryConsumer>()
  private readonly maxMessages: number
  private readonly retryMs: number
  private readonly maxAttempts: number
  private readonly onDead: (batch: Batch) => void

  constructor(o: MemoryQueueOptions = {}) {
    this.maxMessages = check.option(o.maxMessages, 'maxMessages', 10_000, 1, 10_000_000)
    this.retryMs = check.option(o.retryMs, 'retryMs', 100, 1, 60_000)
    this.maxAttempts = check.option(o.maxAttempts, 'maxAttempts', 16, 1, 1_000)
    this.onDead = o.onDead ?? (() => {})
  }

  async start(): Promise<void> {}

  async send(batch: Batch): Promise<Sent> {
    if (this.present.size < this.maxMessages && !this.present.has(batch.batchId)) {
      const message = { batch, since: Date.now(), attempt: 0, dueAt: 0 }
      this.present.set(batch.batchId, message)
      this.waiting.push(message)
      for (const consumer of this.consumers) consumer.wake()
    }
    return 'unknown'
  }

  consume(handler: Handler, o: { readonly maxBatches: number }): Consumer {
    const maxBatches = check.int(o.maxBatches, 'maxBatches', 1, 1_000)
    const consumer = new MemoryConsumer(
      () => this.take(maxBatches),
      (messages, signal) => this.deliver(handler, messages, signal),
      () => this.consumers.delete(consumer),
    )
    this.consumers.add(consumer)
    consumer.wake()
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

  async stop(): Promise<void> {
    await Promise.all([...this.consumers].map((consumer) => consumer.stop()))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
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

  private async deliver(handler: Handler, messages: Message[], signal: AbortSignal): Promise<void> {
    for (const message of messages) message.attempt++
    const attempt = Math.max(...messages.map((m) => m.attempt))
    let outcome: 'ack' | 'retry' | 'dead' = 'retry'
    try {
      outcome = await handler({ batches: messages.map((m) => m.batch), attempt, signal })
    } catch {
      // the same as retry
    }
    for (const message of messages) this.settle(message, outcome)
  }

  private settle(message: Message, outcome: 'ack' | 'retry' | 'dead'): void {
    if (outcome === 'retry' && message.attempt < this.maxAttempts) {
      message.dueAt = performance.now() + this.retryMs * 2 ** Math.min(message.attempt - 1, 6)
      this.waiting.push(message)
      return
    }
    this.present.delete(message.batch.batchId)
    if (outcome !== 'ack') this.onDead(message.batch)
  }
}

/** One loop: takes what is due, hands it over, and sleeps until woken or until the next retry is due. */
class MemoryConsumer implements Consumer {
  private readonly abort = new AbortController()
  private paused = false
  private napping = new AbortController()
  private running: Promise<void> | null = null
  private handling: Promise<void> = Promise.resolve()

  constructor(
    private readonly take: () => Message[] | number,
    private readonly deliver: (messages: Message[], signal: AbortSignal) => Promise<void>,
    private readonly ended: () => void,
  ) {}

  wake(): void {
    this.napping.abort()
    this.running ??= this.loop()
  }

  /** Resolves when the handler that runs has ended; no further one starts. */
  async pause(): Promise<void> {
    this.paused = true
    await this.handling
  }

  resume(): void {
    this.paused = false
    this.wake()
  }

  async stop(): Promise<void> {
    this.abort.abort()
    this.napping.abort()
    await this.running
    this.ended()
  }

  private async loop(): Promise<void> {
    while (!this.abort.signal.aborted) {
      this.napping = new AbortController()
      const taken = this.paused ? 60_000 : this.take()
      if (typeof taken === 'number') await pause(taken, this.napping.signal)
      else {
        this.handling = this.deliver(taken, this.abort.signal)
        await this.handling
      }
    }
  }
}
