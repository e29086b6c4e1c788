import { unlessAborted, within } from './background.js'
import * as check from './check.js'
import { FlashSaleError } from './errors.js'
import { messageText } from './message.js'
import type { BatchHandler, Consumer } from './queue.js'
import type { Batch, Sent } from './types.js'

/** What every queue with a broker does alike: it sends until it is stopped, and a stop lets what runs come to an end. */
export class QueueLife<C extends Consumer> {
  readonly consumers = new Set<C>()
  private readonly sends = new Set<Promise<Sent>>()
  private readonly abandoning = new AbortController()
  private stopping: Promise<void> | null = null

  /** Aborted when handlers that still run are not waited for any more. */
  get abandoned(): AbortSignal {
    return this.abandoning.signal
  }

  get stopped(): boolean {
    return this.stopping !== null
  }

  /** @throws FlashSaleError `STOPPED` */
  refuseWhenStopped(): void {
    if (this.stopping) throw new FlashSaleError('STOPPED', 'this queue was stopped')
  }

  /** `put` never rejects. A signal that aborts ends the waiting, not the send. */
  async send(
    batch: Batch,
    o: { readonly signal: AbortSignal },
    put: (text: string) => Promise<Sent>,
  ): Promise<Sent> {
    const text = messageText(batch)
    if (text === null || this.stopping) return 'rejected'
    if (o.signal.aborted) return 'unknown'
    const sending = put(text)
    this.sends.add(sending)
    void sending.then(() => this.sends.delete(sending))
    return unlessAborted(sending, o.signal, () => 'unknown')
  }

  /** Checks what `consume` was given, and says how many batches a hand-over may have. */
  maxBatches(handler: BatchHandler, o: { readonly maxBatches: number }): number {
    if (typeof handler !== 'function') check.fail('BAD_INPUT', 'handler', 'a function', handler)
    check.object(o, 'options')
    const maxBatches = check.int(o.maxBatches, 'maxBatches', 1, 1_000)
    this.refuseWhenStopped()
    return maxBatches
  }

  /** Once; `close` is told what time is left, and when the consumers have stopped. */
  stop(
    o: { readonly drainMs?: number },
    close?: (leftMs: () => number, consumersStopped: Promise<unknown>) => Promise<unknown>,
  ): Promise<void> {
    check.object(o, 'options')
    const drainMs = check.option(o.drainMs, 'drainMs', 5_000, 0, 600_000)
    this.stopping ??= this.drain(performance.now() + drainMs, close)
    return this.stopping
  }

  private async drain(until: number, close?: Parameters<QueueLife<C>['stop']>[1]): Promise<void> {
    const leftMs = () => Math.max(0, until - performance.now())
    const stops = Promise.all([...this.consumers].map((consumer) => consumer.stop()))
    await within(Promise.all([stops, ...this.sends]), leftMs(), () => undefined)
    this.abandoning.abort()
    await close?.(leftMs, stops)
  }
}
