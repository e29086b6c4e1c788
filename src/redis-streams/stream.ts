import type { QueueKeys } from '../redis/keys.js'
import type { ScriptRunner } from '../redis/run-script.js'
import {
  queueLag,
  queueLeave,
  queueRenew,
  queueSend,
  queueSettle,
  queueTake,
} from '../redis/scripts.generated.js'

/** An entry handed to a consumer for the `attempt`-th time; `text` is '' when it has no field `message`. */
export interface Entry {
  readonly id: string
  readonly attempt: number
  readonly text: string
}

/** What becomes of an entry. `back`: as if it had not been taken for the `attempt`-th time. */
export type Settlement = { readonly id: string } & (
  | { readonly what: 'ack' }
  | { readonly what: 'back'; readonly attempt: number }
  | { readonly what: 'retry'; readonly afterMs: number }
  | { readonly what: 'dead'; readonly why: string }
)

/** The scripts of one stream, typed. Each may be repeated. All throw what {@link ScriptRunner} throws. */
export class Stream {
  constructor(
    private readonly runner: ScriptRunner,
    private readonly sender: ScriptRunner,
    private readonly keys: QueueKeys,
    readonly claimAfterMs: number,
  ) {}

  /** False when the stream is full. */
  async send(message: string, maxMessages: number): Promise<boolean> {
    const [code] = await this.sender.run(queueSend, this.keys, { message, maxMessages })
    return code === 1
  }

  /** `cursor`: where to look for entries of silent consumers, '' not to look; the answer says where to look on. */
  async take(
    consumer: string,
    limit: number,
    cursor: string,
  ): Promise<{ readonly entries: readonly Entry[]; readonly cursor: string }> {
    const { claimAfterMs } = this
    const args = { consumer, limit, claimAfterMs, cursor }
    const reply = await this.runner.run(queueTake, this.keys, args)
    const entries: Entry[] = []
    for (let i = 2; i + 2 < reply.length; i += 3)
      entries.push({
        id: String(reply[i]),
        attempt: Number(reply[i + 1]),
        text: String(reply[i + 2]),
      })
    return { entries, cursor: String(reply[1]) }
  }

  /** The ids that were set aside. */
  async settle(consumer: string, settlements: readonly Settlement[]): Promise<ReadonlySet<string>> {
    const args = settlements.flatMap((s) => [s.id, s.what, detailOf(s)])
    const { claimAfterMs } = this
    const named = { consumer, claimAfterMs }
    const reply = await this.runner.run(queueSettle, this.keys, named, { args })
    return new Set(reply.slice(1).map(String))
  }

  async renew(consumer: string, ids: readonly string[]): Promise<void> {
    await this.runner.run(queueRenew, this.keys, { consumer }, { args: ids })
  }

  async leave(consumer: string): Promise<void> {
    await this.runner.run(queueLeave, this.keys, { consumer })
  }

  async lag(): Promise<{ readonly messages: number; readonly oldestAgeMs: number | null }> {
    const [, messages, age] = await this.runner.run(queueLag, this.keys, {})
    return { messages: Number(messages), oldestAgeMs: age === '' ? null : Number(age) }
  }
}

function detailOf(s: Settlement): string {
  switch (s.what) {
    case 'ack':
      return ''
    case 'back':
      return String(s.attempt)
    case 'retry':
      return String(s.afterMs)
    case 'dead':
      return s.why
    default:
      return s satisfies never
  }
}
