import { pause } from '../core/background.js'
import type { LeasedMessage, Outbox } from '../core/outbox.js'

/** Messages that were taken together, and kept until each is settled: their lease is renewed every third of it. */
export class Holding {
  readonly #held: Set<LeasedMessage>
  readonly #lost = new AbortController()
  readonly #ended = new AbortController()
  readonly #keeping: Promise<void>

  constructor(
    private readonly o: {
      readonly outbox: Pick<Outbox, 'renew'>
      readonly messages: readonly LeasedMessage[]
      readonly leaseMs: number
      readonly onError: (error: unknown) => void
    },
  ) {
    this.#held = new Set(o.messages)
    this.#keeping = this.#keep()
  }

  /** Aborts once all that is left belongs to others. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** They need no lease any more. */
  settled(messages: readonly LeasedMessage[]): void {
    for (const message of messages) this.#held.delete(message)
  }

  async end(): Promise<void> {
    this.#ended.abort()
    await this.#keeping
  }

  async #keep(): Promise<void> {
    for (;;) {
      await pause(this.o.leaseMs / 3, this.#ended.signal)
      if (this.#ended.signal.aborted) return
      await this.#renew().catch(this.o.onError)
    }
  }

  async #renew(): Promise<void> {
    const asked = [...this.#held]
    const renewed = await this.o.outbox.renew(asked, this.o.leaseMs)
    const still = new Set(renewed.map((message) => message.bizNo))
    this.settled(asked.filter((message) => !still.has(message.bizNo)))
    if (this.#held.size === 0) this.#lost.abort()
  }
}
