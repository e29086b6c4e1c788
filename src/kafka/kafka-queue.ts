import { within } from '../core/background.js'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { BatchHandler, Consumer, Queue } from '../core/queue.js'
import { QueueLife } from '../core/queue-life.js'
import { quiet } from '../core/quiet.js'
import type { Batch, Sent } from '../core/types.js'
import { AdminLine } from './admin-line.js'
import type { KafkaLike, KafkaMessage } from './client.js'
import { GroupConsumer } from './group-consumer.js'
import { Sender } from './sender.js'

export interface KafkaQueueOptions {
  /** A kafkajs 2 client. The queue opens connections of its own through it, and closes those. */
  readonly kafka: KafkaLike
  /** Must exist; nothing here creates topics. */
  readonly topic: string
  /** The consumer group; all workers of a sale are in one. @defaultValue 'workers' */
  readonly group?: string
  /** Gets what is set aside, if given. Must exist. */
  readonly deadTopic?: string
  /** Deadline of one send, in ms; past it the outcome is `unknown`. @defaultValue 500 (the source's send timeout) */
  readonly sendTimeoutMs?: number
  /** Deadline of `start`, in ms. @defaultValue 10,000 */
  readonly startTimeoutMs?: number
  /** Deadline of `lag`, in ms; past it, it is `unknown`. @defaultValue 2,000 */
  readonly lagTimeoutMs?: number
  /** Deliveries of one message before it is set aside. @defaultValue 16, which is 70 s of a database that is away */
  readonly maxAttempts?: number
  /** Pause before a message is delivered again, in ms, doubled each time up to 64 times. @defaultValue 100 */
  readonly retryMs?: number
  /** Longest wait of one fetch, in ms; a retry and a resume may be as late. @defaultValue 250 */
  readonly pollMs?: number
  /** Silence of a consumer, in ms, after which its partitions go to others. @defaultValue 30,000 */
  readonly sessionTimeoutMs?: number
  /** How long a rebalance waits for a handler that runs, in ms; then its messages go to others. @defaultValue 60,000 */
  readonly rebalanceTimeoutMs?: number
  /** How soon a consumer notices new partitions, in ms. @defaultValue 30,000 */
  readonly refreshMs?: number
  /** Told of a message that was set aside; of its text when that is no batch. */
  readonly onDead?: (message: Batch | string, why: string) => void
  /** Told of what went wrong where no caller hears of it. */
  readonly onError?: (error: unknown) => void
}

const NAME = /^[a-zA-Z0-9._-]{1,249}$/

/**
 * A queue in a Kafka topic, partitioned by SKU. A message stays with its partition until it is settled: what is tried
 * again holds back the offset, not the messages behind it.
 */
export class KafkaQueue implements Queue {
  private readonly sender: Sender
  private readonly line: AdminLine
  private readonly life = new QueueLife<GroupConsumer>()
  private readonly settings
  private readonly topic: string
  private readonly deadTopic: string | null
  private readonly startTimeoutMs: number
  private readonly lagTimeoutMs: number
  private readonly onError: (error: unknown) => void
  private starting: Promise<void> | null = null

  constructor(o: KafkaQueueOptions) {
    check.object(o, 'options')
    const { kafka } = o
    if ([kafka?.producer, kafka?.consumer, kafka?.admin].some((f) => typeof f !== 'function'))
      check.fail('BAD_OPTION', 'option kafka', 'a kafkajs client', kafka)
    this.topic = name(o.topic, 'topic')
    this.deadTopic = o.deadTopic === undefined ? null : name(o.deadTopic, 'deadTopic')
    if (this.deadTopic === this.topic)
      check.fail('BAD_OPTION', 'option deadTopic', 'another than topic', o.deadTopic)
    const group = o.group === undefined ? 'workers' : name(o.group, 'group')
    this.startTimeoutMs = check.option(o.startTimeoutMs, 'startTimeoutMs', 10_000, 100, 600_000)
    this.lagTimeoutMs = check.option(o.lagTimeoutMs, 'lagTimeoutMs', 2_000, 10, 60_000)
    this.onError = quiet('onError', o.onError)
    this.settings = {
      kafka,
      topic: this.topic,
      group,
      maxAttempts: check.option(o.maxAttempts, 'maxAttempts', 16, 1, 1_000),
      retryMs: check.option(o.retryMs, 'retryMs', 100, 1, 60_000),
      pollMs: check.option(o.pollMs, 'pollMs', 250, 1, 10_000),
      sessionTimeoutMs: check.option(
        o.sessionTimeoutMs,
        'sessionTimeoutMs',
        30_000,
        100,
        3_600_000,
      ),
      rebalanceTimeoutMs: check.option(
        o.rebalanceTimeoutMs,
        'rebalanceTimeoutMs',
        60_000,
        100,
        3_600_000,
      ),
      refreshMs: check.option(o.refreshMs, 'refreshMs', 30_000, 100, 3_600_000),
      onDead: quiet('onDead', o.onDead),
      onError: this.onError,
    }
    const sendTimeoutMs = check.option(o.sendTimeoutMs, 'sendTimeoutMs', 500, 1, 60_000)
    this.sender = new Sender(kafka, sendTimeoutMs, this.onError)
    this.line = new AdminLine(kafka, this.topic, group)
  }

  /**
   * Finds topic and group, and connects the producer, so that what is missing is met now and not in the sale. May be
   * called again.
   *
   * @throws FlashSaleError `QUEUE_UNAVAILABLE` with the name of the topic that is missing, or after `startTimeoutMs`
   */
  async start(): Promise<void> {
    this.life.refuseWhenStopped()
    this.starting ??= this.reach().catch((error) => {
      this.starting = null
      throw error
    })
    return this.starting
  }

  send(batch: Batch, o: { readonly signal: AbortSignal }): Promise<Sent> {
    return this.life.send(batch, o, (text) =>
      this.sender.send(this.topic, `${batch.activityId} ${batch.skuId}`, text),
    )
  }

  consume(handler: BatchHandler, o: { readonly maxBatches: number }): Consumer {
    const maxBatches = this.life.maxBatches(handler, o)
    const consumer = new GroupConsumer(
      {
        ...this.settings,
        handler,
        maxBatches,
        metadata: () => this.line.metadata(this.startTimeoutMs),
        bury: (message, why) => this.bury(message, why),
        abandoned: this.life.abandoned,
      },
      () => void this.life.consumers.delete(consumer),
    )
    this.life.consumers.add(consumer)
    return consumer
  }

  /** Messages of all partitions not committed by the group, also what is being handled. The age is not known. */
  async lag(): ReturnType<Queue['lag']> {
    try {
      const messages = await this.line.lag(this.lagTimeoutMs)
      return messages === 'unknown' ? messages : { messages, oldestAgeMs: null }
    } catch (error) {
      this.onError(error)
      return 'unknown'
    }
  }

  /**
   * Lets sends and handlers that run end, for at most `drainMs` (default 5,000), and closes the connections. What a handler
   * still holds after that comes again.
   */
  stop(o: { readonly drainMs?: number } = {}): Promise<void> {
    // Who hung lets go now. A broker that does not answer is not waited for; kafkajs closes its sockets by and by.
    return this.life.stop(o, async (_, stopped) => {
      const closed = stopped.then(() => Promise.all([this.sender.close(), this.line.close()]))
      await within(closed, CLOSE_MS, () => undefined)
    })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  private async reach(): Promise<void> {
    const topics = this.deadTopic === null ? [this.topic] : [this.topic, this.deadTopic]
    await this.line.check(topics, this.startTimeoutMs)
    await within(this.sender.connect(), this.startTimeoutMs, () => {
      throw new FlashSaleError(
        'QUEUE_UNAVAILABLE',
        `Kafka: the producer did not connect within ${this.startTimeoutMs} ms`,
      )
    })
  }

  /** As it was, with the reason as a header. */
  private async bury({ key, value }: KafkaMessage, why: string): Promise<boolean> {
    if (this.deadTopic === null) return true
    const text = value?.toString('utf8') ?? ''
    const headers = { why: why.slice(0, 200), from: this.topic }
    const sent = await this.sender.send(this.deadTopic, key?.toString('utf8') ?? '', text, headers)
    return sent === 'accepted'
  }
}

const CLOSE_MS = 2_000

function name(value: unknown, option: string): string {
  if (typeof value === 'string' && NAME.test(value) && !/^\.{1,2}$/.test(value)) return value
  return check.fail('BAD_OPTION', `option ${option}`, '1 to 249 of a-z A-Z 0-9 . _ -', value)
}
