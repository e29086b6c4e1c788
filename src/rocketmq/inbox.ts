import type { RocketmqConsumer, RocketmqMessage } from './sdk.js'

/** A message that somebody in this process has, since `at` (`performance.now()`) invisible to others. */
export interface Received {
  readonly message: RocketmqMessage
  readonly at: number
}

/** Of one ask the broker gives 32 at most. */
const MOST = 32

/**
 * Messages of one topic and group, asked for by long polling. An ask cannot be taken back, and takes 5 s where there is
 * nothing: one whose consumer stops or pauses is left here, and the next to ask gets what it brings.
 */
export class Inbox {
  private readonly asks: Promise<readonly Received[]>[] = []
  private readonly rest: Received[] = []

  constructor(
    private readonly client: RocketmqConsumer,
    private readonly invisibleMs: number,
  ) {}

  /** Rejects when the broker cannot be asked. Unless it is left here, what it brings is the caller's. */
  async ask(count: number): Promise<readonly Received[]> {
    const kept = this.fresh(this.rest.splice(0, count))
    if (kept.length > 0) return kept
    const received = this.fresh(await (this.asks.shift() ?? this.receive(Math.min(count, MOST))))
    this.rest.push(...received.slice(count)) // it was asked for by one who takes more at a time
    return received.slice(0, count)
  }

  leave(ask: Promise<readonly Received[]>): void {
    ask.catch(() => {}) // whoever asks next is told
    this.asks.push(ask)
  }

  private async receive(count: number): Promise<readonly Received[]> {
    const messages = await this.client.receive(count, this.invisibleMs)
    const at = performance.now()
    return messages.map((message) => ({ message, at }))
  }

  /** Without what lay here too long: it is soon another's, and is left to come again. */
  private fresh(received: readonly Received[]): readonly Received[] {
    const now = performance.now()
    return received.filter(({ at }) => now - at < this.invisibleMs / 2)
  }
}
