import { setTimeout as sleep } from 'node:timers/promises'
import { within } from '../core/background.js'
import { FlashSaleError } from '../core/errors.js'
import type { KafkaAdmin, KafkaLike } from './client.js'
import { lagOf } from './lag.js'

/** A connection for questions about topic and group, opened at the first and again after trouble. */
export class AdminLine {
  private admin: Promise<KafkaAdmin> | null = null
  private closed = false

  constructor(
    private readonly kafka: KafkaLike,
    private readonly topic: string,
    private readonly group: string,
  ) {}

  /**
   * Rejects with a `FlashSaleError` `QUEUE_UNAVAILABLE` that names what is missing or could not be reached in time.
   */
  async check(topics: readonly string[], ms: number): Promise<void> {
    await this.ask(ms, 'topic and group to be found', async (admin) => {
      const there = new Set(await admin.listTopics())
      const missing = topics.filter((topic) => !there.has(topic))
      if (missing.length > 0)
        throw new FlashSaleError(
          'QUEUE_UNAVAILABLE',
          `no topic ${missing.join(', ')} in Kafka, or this client may not see it`,
        )
      await admin.fetchOffsets({ groupId: this.group, topics: [this.topic] })
    })
  }

  /** The metadata of the group's committed offsets, by partition. */
  async metadata(ms: number): Promise<ReadonlyMap<number, string | null>> {
    const partitions = await this.ask(ms, 'committed offsets', (admin) => this.committed(admin))
    return new Map(partitions.map((p) => [p.partition, p.metadata]))
  }

  async lag(ms: number): Promise<number | 'unknown'> {
    const once = () =>
      this.ask(ms, 'lag', async (admin) => {
        const [{ topics }, ends, committed] = await Promise.all([
          admin.fetchTopicMetadata({ topics: [this.topic] }),
          admin.fetchTopicOffsets(this.topic),
          this.committed(admin),
        ])
        const partitions = topics.find((t) => t.name === this.topic)?.partitions ?? []
        if (partitions.length === 0) return 'unknown'
        return lagOf(
          partitions.map((p) => p.partitionId),
          committed,
          ends,
        )
      })
    const first = await once()
    if (first !== 'unknown') return first
    // A connection learns of new partitions after minutes only; a fresh one knows them.
    this.drop()
    return once()
  }

  async close(): Promise<void> {
    this.closed = true
    this.drop()
  }

  private async committed(admin: KafkaAdmin) {
    const answer = await admin.fetchOffsets({ groupId: this.group, topics: [this.topic] })
    return answer.find((a) => a.topic === this.topic)?.partitions ?? []
  }

  private async ask<T>(ms: number, what: string, work: (admin: KafkaAdmin) => Promise<T>) {
    if (this.closed) throw new FlashSaleError('STOPPED', 'this queue was stopped')
    this.admin ??= this.open()
    const until = performance.now() + ms
    const answer = this.admin.then((admin) => persist(() => work(admin), until))
    try {
      return await within(answer, ms, () => {
        throw new FlashSaleError('QUEUE_UNAVAILABLE', `Kafka: no ${what} within ${ms} ms`)
      })
    } catch (cause) {
      this.drop()
      if (cause instanceof FlashSaleError) throw cause
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new FlashSaleError('QUEUE_UNAVAILABLE', `Kafka: no ${what}: ${why}`, { cause })
    }
  }

  private async open(): Promise<KafkaAdmin> {
    const admin = this.kafka.admin()
    try {
      await admin.connect()
    } catch (error) {
      await admin.disconnect().catch(() => {})
      throw error
    }
    return admin
  }

  private drop(): void {
    const dropped = this.admin
    this.admin = null
    dropped?.then((admin) => admin.disconnect()).catch(() => {})
  }
}

const TRY_AGAIN_MS = 100

/** A coordinator that is still loading, or has just moved, says so with an error that passes; kafkajs does not ask again. */
async function persist<T>(work: () => Promise<T>, until: number): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      const passes = (error as { retriable?: unknown } | null)?.retriable === true
      if (!passes || performance.now() + TRY_AGAIN_MS >= until) throw error
    }
    await sleep(TRY_AGAIN_MS)
  }
}
