import { pause } from '../core/background.js'
import { handOver } from '../core/hand-over.js'
import { parseBatch } from '../core/message.js'
import type { PullSource } from '../core/pull-loop.js'
import type { BatchHandler, Handled } from '../core/queue.js'
import type { Batch } from '../core/types.js'
import type { Entry, Settlement, Stream } from './stream.js'

export interface StreamSourceOptions {
  readonly stream: Stream
  /** Its name in the group: unique, or two would renew each other's entries. */
  readonly name: string
  readonly handler: BatchHandler
  readonly maxBatches: number
  readonly maxAttempts: number
  readonly retryMs: number
  readonly pollMs: number
  /** Aborted when the queue no longer waits for handlers: what they hold may go to others. */
  readonly abandoned: AbortSignal
  /** Neither may throw. */
  readonly onDead: (message: Batch | string, why: string) => void
  readonly onError: (error: unknown) => void
}

/** An entry that can be handed over. */
interface Held {
  readonly entry: Entry
  readonly batch: Batch
}

/** How an entry ends, and what `onDead` is told of it. */
interface Ending {
  readonly settlement: Settlement
  readonly message: Batch | string
}

/** Where Redis cannot be asked, asking faster does not help it. */
const TROUBLE_MS = 500
const FIRST_POLL_MS = 5
const SETTLE_AGAIN_MS = 200

/** What one consumer of a stream takes, hands over and settles. */
export class StreamSource implements PullSource<Entry> {
  private cursor = '-'
  private lookAt = 0
  private emptyMs = 0

  constructor(private readonly o: StreamSourceOptions) {}

  /** Entries of silent consumers are looked for no more often than each `pollMs`, however fast new ones come. */
  async take(): Promise<readonly Entry[] | number> {
    const { stream, name, maxBatches, pollMs } = this.o
    const look = this.cursor !== '-' || performance.now() >= this.lookAt
    try {
      const taken = await stream.take(name, maxBatches, look ? this.cursor : '')
      if (look) {
        this.cursor = taken.cursor || '-'
        this.lookAt = performance.now() + pollMs
      }
      if (taken.entries.length > 0) {
        this.emptyMs = 0
        return taken.entries
      }
      this.emptyMs = Math.min(pollMs, this.emptyMs * 2 || FIRST_POLL_MS)
      return this.emptyMs
    } catch (error) {
      this.o.onError(error)
      return TROUBLE_MS
    }
  }

  async handle(entries: readonly Entry[], signal: AbortSignal): Promise<void> {
    const done = new AbortController()
    const ids = entries.map((e) => e.id)
    const keeping = this.keepClaim(ids, done.signal)
    try {
      const read = entries.map((entry) => this.read(entry))
      const held = read.filter((r): r is Held => 'batch' in r)
      const unfit = read.filter((r): r is Ending => 'settlement' in r)
      await this.settle([...unfit, ...(await this.handOver(held, signal))], signal)
    } finally {
      done.abort()
      await keeping
    }
  }

  async giveBack(entries: readonly Entry[]): Promise<void> {
    const endings = entries.map(({ id, attempt, text }) => {
      return { settlement: { id, what: 'back', attempt }, message: text } as const
    })
    await this.settle(endings, AbortSignal.abort())
  }

  /** One that nobody can read, or that was handed out often enough and never settled, is seen by no handler. */
  private read(entry: Entry): Held | Ending {
    try {
      const batch = parseBatch(entry.text)
      if (entry.attempt <= this.o.maxAttempts) return { entry, batch }
      return dead(entry, batch, `handed out ${entry.attempt - 1} times and never settled`)
    } catch (error) {
      return dead(entry, entry.text, error instanceof Error ? error.message : String(error))
    }
  }

  private async handOver(held: readonly Held[], signal: AbortSignal): Promise<readonly Ending[]> {
    if (held.length === 0) return []
    const batches = held.map((h) => h.batch)
    const attempt = Math.max(...held.map((h) => h.entry.attempt))
    const handled = await handOver(this.o.handler, { batches, attempt, signal })
    return held.map((h, i) => this.ending(h, handled[i] ?? 'retry'))
  }

  private ending({ entry, batch }: Held, handled: Handled): Ending {
    const { id, attempt } = entry
    if (handled === 'ack') return { settlement: { id, what: 'ack' }, message: batch }
    if (handled === 'dead') return dead(entry, batch, 'set aside by the consumer')
    if (attempt >= this.o.maxAttempts) return dead(entry, batch, `tried ${attempt} times`)
    const afterMs = this.o.retryMs * 2 ** Math.min(attempt - 1, 6)
    return { settlement: { id, what: 'retry', afterMs }, message: batch }
  }

  /**
   * Repeats as long as the claim lasts; then, or once stopped, the entries come again by themselves, as duplicates.
   */
  private async settle(endings: readonly Ending[], signal: AbortSignal): Promise<void> {
    const { stream, name } = this.o
    const until = performance.now() + stream.claimAfterMs
    const settlements = endings.map((e) => e.settlement)
    for (;;) {
      try {
        const setAside = await stream.settle(name, settlements)
        for (const { settlement: s, message } of endings)
          if (s.what === 'dead' && setAside.has(s.id)) this.o.onDead(message, s.why)
        return
      } catch (error) {
        this.o.onError(error)
      }
      await pause(SETTLE_AGAIN_MS, signal)
      if (signal.aborted || performance.now() >= until) return
    }
  }

  /** However long a handler takes, nobody else gets what it holds while this process lives. */
  private async keepClaim(ids: readonly string[], done: AbortSignal): Promise<void> {
    const { stream, name, abandoned } = this.o
    for (;;) {
      await pause(stream.claimAfterMs / 3, done)
      if (done.aborted || abandoned.aborted) return
      try {
        await stream.renew(name, ids)
      } catch (error) {
        this.o.onError(error)
      }
    }
  }
}

function dead({ id }: Entry, message: Batch | string, why: string): Ending {
  return { settlement: { id, what: 'dead', why: why.slice(0, 200) }, message }
}
