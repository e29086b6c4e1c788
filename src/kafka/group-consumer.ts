import { follow, pause, unlessAborted, within } from '../core/background.js'
import type { Consumer } from '../core/queue.js'
import type { EachBatch, KafkaConsumer, KafkaLike, KafkaMessage } from './client.js'
import { isMembership } from './errors.js'
import { Progress } from './progress.js'
import { type SettleOptions, settle } from './settle.js'

export interface GroupConsumerOptions extends SettleOptions {
  readonly kafka: KafkaLike
  readonly topic: string
  readonly group: string
  readonly maxBatches: number
  readonly retryMs: number
  readonly pollMs: number
  readonly sessionTimeoutMs: number
  readonly rebalanceTimeoutMs: number
  readonly refreshMs: number
  /** Metadata of the group's committed offsets, by partition. */
  readonly metadata: () => Promise<ReadonlyMap<number, string | null>>
  /** Aborted when the queue no longer waits for handlers. */
  readonly abandoned: AbortSignal
  /** Must not throw. */
  readonly onError: (error: unknown) => void
}

const TROUBLE_MS = 1_000
/** Of a farewell to the broker. One that is gone is asked for a minute by kafkajs, which cannot be called off. */
const LEAVE_MS = 3_000

/**
 * One member of the consumer group. Before each hand-over it commits: that the broker takes the commit proves that the
 * partition is still its own, and the metadata says who is about to be tried. After a rebalance has begun it starts
 * nothing more; the hand-over that runs ends and is committed, and only then does it join again.
 */
export class GroupConsumer implements Consumer {
  private readonly abort = new AbortController()
  private readonly living: Promise<void>
  private kafka: KafkaConsumer | null = null
  private paused = false
  private turn: Promise<unknown> = Promise.resolve()
  private stopping: Promise<void> | null = null
  /** Counts the joins: what was begun in a former one must not be committed. */
  private generation = 0
  /** With what the broker asked to join again, if it has. */
  private farewell: unknown = null
  private readonly progress = new Map<number, Progress>()
  private metadata: ReturnType<GroupConsumerOptions['metadata']> | null = null

  constructor(
    private readonly o: GroupConsumerOptions,
    private readonly ended: () => void,
  ) {
    this.living = this.live()
  }

  async pause(): Promise<void> {
    this.paused = true
    await this.turn
  }

  resume(): void {
    this.paused = false
    try {
      this.kafka?.resume([{ topic: this.o.topic }])
    } catch {
      // it has not joined yet, and so was not paused
    }
  }

  stop(): Promise<void> {
    this.stopping ??= this.end()
    return this.stopping
  }

  private async end(): Promise<void> {
    this.abort.abort()
    await this.turn
    await this.living
    this.ended()
  }

  private get held(): boolean {
    return this.paused || this.abort.signal.aborted
  }

  /** kafkajs restarts after what passes by itself; after the rest, a new consumer is made. */
  private async live(): Promise<void> {
    const { signal } = this.abort
    await null // the caller of `consume` gets its Consumer first
    while (!signal.aborted) {
      await this.member()
      await pause(TROUBLE_MS, signal)
    }
  }

  private async member(): Promise<void> {
    const { topic, onError } = this.o
    const { signal } = this.abort
    const consumer = this.make()
    this.kafka = consumer
    const over = new AbortController()
    const unfollow = follow(over, signal)
    consumer.on('consumer.group_join', () => this.joined())
    consumer.on('consumer.crash', ({ payload }) => {
      onError(payload.error)
      if (!payload.restart) over.abort()
    })
    const running = (async () => {
      await consumer.connect()
      await consumer.subscribe({ topic, fromBeginning: true })
      if (signal.aborted) return
      await consumer.run({
        autoCommit: false,
        eachBatchAutoResolve: false,
        eachBatch: (payload) => this.eachBatch(payload),
      })
      await unlessAborted(new Promise<void>(() => {}), over.signal, () => {})
    })()
    await unlessAborted(running, signal, () => {}).catch(onError)
    unfollow()
    this.kafka = null
    // Not before a join that is under way has ended: kafkajs forgets a consumer that is told to leave while it joins, and
    // goes on with it. It would keep its partitions and hand nothing over.
    const left = running.catch(() => {}).then(() => consumer.disconnect())
    await within(left.catch(onError), LEAVE_MS, () => {})
  }

  private make(): KafkaConsumer {
    return this.o.kafka.consumer({
      groupId: this.o.group,
      allowAutoTopicCreation: false,
      sessionTimeout: this.o.sessionTimeoutMs,
      rebalanceTimeout: this.o.rebalanceTimeoutMs,
      heartbeatInterval: Math.floor(this.o.sessionTimeoutMs / 10),
      maxWaitTimeInMs: this.o.pollMs,
      metadataMaxAge: this.o.refreshMs,
      retry: { restartOnFailure: async () => !this.abort.signal.aborted },
    })
  }

  /** What was remembered of partitions may be out of date: others may have had them. */
  private joined(): void {
    this.generation++
    this.farewell = null
    this.progress.clear()
    this.metadata = null
  }

  private async progressOf(partition: number): Promise<Progress> {
    const known = this.progress.get(partition)
    if (known) return known
    this.metadata ??= this.o.metadata()
    const metadata = await this.metadata
    const progress = new Progress(this.o.retryMs, metadata.get(partition))
    this.progress.set(partition, progress)
    return progress
  }

  private async eachBatch(payload: EachBatch): Promise<void> {
    try {
      await this.work(payload)
    } catch (error) {
      this.metadata = null
      if (!isMembership(error)) this.o.onError(error)
      throw error // kafkajs joins again, or fetches again from what was resolved
    }
  }

  /** Hands over the messages of one fetch, group by group, until all are settled or must wait. */
  private async work(payload: EachBatch): Promise<void> {
    const { topic, maxBatches } = this.o
    const { messages, partition } = payload.batch
    const { generation } = this
    const progress = await this.progressOf(partition)
    let last = ''
    const commit = async () => {
      const to = { partition, ...progress.commit }
      const said = `${to.offset} ${to.metadata}`
      if (said === last) return
      await payload.commitOffsetsIfNecessary({ topics: [{ topic, partitions: [to] }] })
      last = said
      if (to.offset !== messages[0]?.offset) payload.resolveOffset(String(BigInt(to.offset) - 1n))
    }
    for (;;) {
      await this.beat(payload)
      if (generation !== this.generation) return // another broker's fetch led to a join
      const open = progress.open(messages)
      const due = this.held || this.farewell ? [] : progress.due(open, maxBatches)
      if (due.length === 0) {
        await commit()
        if (this.farewell) throw this.farewell
        if (this.paused) this.kafka?.pause([{ topic }])
        else if (open.length > 0) backOff(payload, progress.waitMs(open))
        return
      }
      progress.begin(due)
      try {
        await commit()
      } catch (error) {
        progress.takeBack(due) // or a broker in trouble would use up their attempts
        throw error
      }
      if (this.held) {
        progress.takeBack(due)
        continue
      }
      const turn = this.handOver(due, progress, payload)
      this.turn = turn.catch(() => {})
      await turn
      if (this.o.abandoned.aborted) return
    }
  }

  /** However slow the handler is, the broker hears of its consumer. */
  private async handOver(
    messages: readonly KafkaMessage[],
    progress: Progress,
    payload: EachBatch,
  ): Promise<void> {
    const done = new AbortController()
    void this.keepBeating(payload, done.signal)
    try {
      const work = settle(this.o, messages, progress, this.abort.signal)
      await unlessAborted(work, this.o.abandoned, () => {})
    } finally {
      done.abort()
    }
  }

  private async keepBeating(payload: EachBatch, done: AbortSignal): Promise<void> {
    for (;;) {
      await pause(this.o.sessionTimeoutMs / 10, done)
      if (done.aborted) return
      await this.beat(payload)
    }
  }

  /** kafkajs sends one when it is time, and nothing otherwise. */
  private async beat({ heartbeat }: EachBatch): Promise<void> {
    const { generation } = this
    try {
      await heartbeat()
    } catch (error) {
      if (!isMembership(error)) this.o.onError(error)
      else if (generation === this.generation) this.farewell = error
    }
  }
}

/** Others of the same consumer go on meanwhile. */
function backOff(payload: EachBatch, ms: number): void {
  const resume = payload.pause()
  setTimeout(resume, ms).unref()
}
