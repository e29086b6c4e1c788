import type { KafkaMessage } from './client.js'

/** Kafka's brokers take 4,096 bytes of metadata by default; an entry has 28 at most. */
const MAX_TRIES_KEPT = 120

interface Tried {
  attempt: number
  dueAt: number
  settled: boolean
}

/**
 * What became of the messages of one partition, from the first that is not settled on. Kafka keeps one offset for them
 * all, so what was settled beyond it is remembered here: an `ack` behind a `retry` is not handed over again.
 *
 * Kafka counts no deliveries either. The attempts travel as metadata of the committed offset, so that a batch which kills
 * its consumer is known to the next one.
 */
export class Progress {
  private readonly tried = new Map<string, Tried>()
  private readonly formerTries: ReadonlyMap<string, number>
  private readonly formerUpTo: bigint
  private upTo: bigint
  private head: bigint | null = null

  /** @param metadata of the committed offset, written by this or a former owner of the partition */
  constructor(
    private readonly retryMs: number,
    metadata: string | null = null,
  ) {
    const former = readMetadata(metadata)
    this.formerTries = former.tries
    this.formerUpTo = former.upTo
    this.upTo = former.upTo
  }

  /** Those not settled. What is settled with nothing open in front of it is behind us, and forgotten. */
  open(messages: readonly KafkaMessage[]): readonly KafkaMessage[] {
    const open: KafkaMessage[] = []
    for (const message of messages) {
      const { offset } = message
      this.head ??= BigInt(offset)
      if (BigInt(offset) < this.head) continue
      if (!this.tried.get(offset)?.settled) open.push(message)
      else if (open.length === 0) {
        this.tried.delete(offset)
        this.head = BigInt(offset) + 1n
      }
    }
    return open
  }

  /** What to commit: the first offset not settled, and who was tried how often from there on. */
  get commit(): { readonly offset: string; readonly metadata: string } {
    return { offset: String(this.head ?? 0n), metadata: this.metadata() }
  }

  /** The first `max` whose time has come. */
  due(open: readonly KafkaMessage[], max: number): readonly KafkaMessage[] {
    const now = performance.now()
    return open.filter(({ offset }) => (this.tried.get(offset)?.dueAt ?? 0) <= now).slice(0, max)
  }

  /** How long until the next of them is due, in ms. */
  waitMs(open: readonly KafkaMessage[]): number {
    const next = Math.min(...open.map(({ offset }) => this.tried.get(offset)?.dueAt ?? 0))
    return Math.max(1, Math.ceil(next - performance.now()))
  }

  /** They are about to be handed over. */
  begin(messages: readonly KafkaMessage[]): void {
    for (const { offset } of messages) {
      const tried = this.tried.get(offset)
      if (tried) tried.attempt++
      else this.tried.set(offset, { attempt: this.former(offset) + 1, dueAt: 0, settled: false })
      if (BigInt(offset) > this.upTo) this.upTo = BigInt(offset)
    }
  }

  /** They were not, after all. */
  takeBack(messages: readonly KafkaMessage[]): void {
    for (const { offset } of messages) {
      const tried = this.tried.get(offset)
      if (tried) tried.attempt--
    }
  }

  /** Counts the hand-over that runs; 1 is the first. */
  attempt(offset: string): number {
    return this.tried.get(offset)?.attempt ?? this.former(offset)
  }

  settle(offset: string): void {
    const tried = this.tried.get(offset)
    if (tried) tried.settled = true
  }

  /** Due again after a pause that doubles with each attempt, up to 64 times. */
  again(offset: string): void {
    const tried = this.tried.get(offset)
    if (tried) tried.dueAt = performance.now() + this.retryMs * 2 ** Math.min(tried.attempt - 1, 6)
  }

  private former(offset: string): number {
    return this.formerTries.get(offset) ?? (BigInt(offset) <= this.formerUpTo ? 1 : 0)
  }

  /** `upTo`: each message up to this one was handed over once, those in `tries` as often as it says. */
  private metadata(): string {
    if (this.head === null || this.upTo < this.head) return ''
    const tries: Record<string, number> = {}
    const open = [...this.tried].filter(([, tried]) => !tried.settled && tried.attempt !== 1)
    open.sort(([, a], [, b]) => b.attempt - a.attempt) // where there are too many, the worst are kept
    for (const [offset, { attempt }] of open.slice(0, MAX_TRIES_KEPT)) tries[offset] = attempt
    return JSON.stringify({ upTo: String(this.upTo), tries })
  }
}

/** A stranger may have committed; what cannot be read counts as nothing tried. */
function readMetadata(text: string | null): { upTo: bigint; tries: Map<string, number> } {
  const nothing = { upTo: -1n, tries: new Map<string, number>() }
  if (!text) return nothing
  try {
    const raw = JSON.parse(text) as { upTo: string; tries: Record<string, number> }
    if (!/^\d{1,19}$/.test(raw.upTo)) return nothing
    const tries = Object.entries(raw.tries).filter(
      ([offset, n]) => /^\d{1,19}$/.test(offset) && Number.isSafeInteger(n) && n >= 0,
    )
    return { upTo: BigInt(raw.upTo), tries: new Map(tries) }
  } catch {
    return nothing
  }
}
