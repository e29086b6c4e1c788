import { createHash } from 'node:crypto'
import { within } from '../core/background.js'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import { PullLoop } from '../core/pull-loop.js'
import type { BatchHandler, Consumer, Queue } from '../core/queue.js'
import { QueueLife } from '../core/queue-life.js'
import { quiet } from '../core/quiet.js'
import type { Batch, Sent, SkuRef } from '../core/types.js'
import { addressOf, type RocketmqAddress } from './address.js'
import { BrokerLink, type BrokerLinkOptions } from './broker-link.js'
import type { Received } from './inbox.js'
import { lagIn, Metrics } from './lag.js'
import { MessageSource } from './message-source.js'
import { outcomeOf } from './outcome.js'
import { loadModule, type RocketmqModule } from './sdk.js'

export interface RocketmqQueueOptions extends RocketmqAddress {
  /** A FIFO topic (`+message.type=FIFO`), made beforehand. One queue is one topic: per activity, per SKU or for all. */
  readonly topic: string
  /** The consumer group, made beforehand and not in order. Without one the queue only sends. */
  readonly group?: string
  /** Deadline of one send, in ms; past it the outcome is `unknown`. @defaultValue 500 (the source's send timeout) */
  readonly sendTimeoutMs?: number
  /** Deliveries of one message before it is set aside. @defaultValue 16; the group's own limit must not be lower */
  readonly maxAttempts?: number
  /**
   * How long a consumer may be silent before its messages go to another, in ms; a proxy refuses less than 10,000 unless
   * `minInvisibleTimeMillsForRecv` says otherwise. @defaultValue 30,000
   */
  readonly invisibleMs?: number
  /** Pause before a message is delivered again, in ms, doubled each time up to 64 times; the broker adds 2 to 5 s. @defaultValue 500 */
  readonly retryMs?: number
  /** Limit of `start()`, in ms. @defaultValue 10,000 */
  readonly startTimeoutMs?: number
  /** The broker's metrics in Prometheus text (`metricsExporterType=PROM`), one URL for each broker; without it `lag()` is `unknown`. */
  readonly metricsUrl?: string | readonly string[]
  /** Told of a message that was set aside; of its text when that is no batch. It is acknowledged then. */
  readonly onDead?: (message: Batch | string, why: string) => void
  /** Told of what went wrong where no caller hears of it. */
  readonly onError?: (error: unknown) => void
  /** The client, where a bundler must be told. @defaultValue `import('rocketmq-client-nodejs')` at `start()` */
  readonly module?: RocketmqModule
}

/** The proxy refuses a longer message group. */
const LONGEST_GROUP = 64

/**
 * A queue in a topic of RocketMQ 5, through its gRPC proxy. Batches of one SKU go to one broker queue, in order; consumers
 * take them in any order, many at a time, so that commits group and one that fails holds up nobody.
 */
export class RocketmqQueue implements Queue {
  private readonly address: BrokerLinkOptions
  private readonly settings: Readonly<Record<'maxAttempts' | 'retryMs' | 'invisibleMs', number>>
  private readonly metrics: Metrics | null
  private readonly module: RocketmqModule | undefined
  private readonly onDead: (message: Batch | string, why: string) => void
  private readonly onError: (error: unknown) => void
  private readonly life = new QueueLife<Consumer>()
  private readonly held = new Set<Received>()
  private link: BrokerLink | null = null
  private starting: Promise<void> | null = null

  constructor(o: RocketmqQueueOptions) {
    check.object(o, 'options')
    this.onDead = quiet('onDead', o.onDead)
    this.onError = quiet('onError', o.onError)
    this.settings = {
      maxAttempts: check.option(o.maxAttempts, 'maxAttempts', 16, 1, 1_000),
      retryMs: check.option(o.retryMs, 'retryMs', 500, 1, 60_000),
      invisibleMs: check.option(o.invisibleMs, 'invisibleMs', 30_000, 1_000, 3_600_000),
    }
    this.address = {
      ...addressOf(o),
      group: o.group === undefined ? undefined : check.text(o.group, 'option group', 255),
      sendTimeoutMs: check.option(o.sendTimeoutMs, 'sendTimeoutMs', 500, 1, 60_000),
      startTimeoutMs: check.option(o.startTimeoutMs, 'startTimeoutMs', 10_000, 100, 300_000),
      invisibleMs: this.settings.invisibleMs,
      onError: this.onError,
    }
    const urls = [o.metricsUrl ?? []].flat()
    this.metrics = urls.length > 0 ? new Metrics(urls) : null
    for (const url of urls)
      if (!URL.canParse(url)) check.fail('BAD_OPTION', 'option metricsUrl', 'a URL', url)
    this.module = o.module
  }

  /**
   * May be called again. Until it is through, nothing is sent.
   *
   * @throws FlashSaleError within `startTimeoutMs`: `QUEUE_UNAVAILABLE` when the broker does not answer, or topic or group
   * are missing; `BAD_OPTION` when they are of the wrong type, or the client cannot be loaded
   */
  async start(): Promise<void> {
    this.life.refuseWhenStopped()
    this.starting ??= this.open().catch((error: unknown) => {
      this.starting = null
      throw error
    })
    return this.starting
  }

  send(batch: Batch, o: { readonly signal: AbortSignal }): Promise<Sent> {
    const sent = this.life.send(batch, o, (text) => this.put(batch, text))
    return within(sent, this.address.sendTimeoutMs, () => 'unknown')
  }

  /** At most 32 batches are handed over at once: a broker gives no more. */
  consume(handler: BatchHandler, o: { readonly maxBatches: number }): Consumer {
    const maxBatches = this.life.maxBatches(handler, o)
    if (this.address.group === undefined)
      throw new FlashSaleError('BAD_OPTION', 'option group is needed to consume')
    const source = new MessageSource({
      ...this.settings,
      broker: () => this.link?.consumer ?? null,
      handler,
      maxBatches,
      held: this.held,
      abandoned: this.life.abandoned,
      onDead: this.onDead,
      onError: this.onError,
    })
    const loop = new PullLoop(source, () => void this.life.consumers.delete(consumer))
    const consumer: Consumer = {
      pause() {
        source.interrupt()
        return loop.pause()
      },
      resume() {
        source.resume()
        loop.resume()
      },
      stop() {
        source.interrupt()
        return loop.stop()
      },
    }
    this.life.consumers.add(consumer)
    return consumer
  }

  /**
   * What no consumer has taken yet, by the brokers' metrics, and what this process is handling. What other processes are
   * handling is not in it, and nothing is before the group has consumed for the first time.
   */
  async lag(): ReturnType<Queue['lag']> {
    const { topic, group } = this.address
    if (!this.metrics || group === undefined) return 'unknown'
    try {
      const told = lagIn(await this.metrics.read(), topic, group)
      if (!told) return 'unknown'
      const messages = told.messages + this.held.size
      if (messages === 0) return { messages, oldestAgeMs: null }
      const born = [...this.held].map(({ message }) => message.bornTimestamp?.getTime() ?? Infinity)
      return {
        messages,
        oldestAgeMs: Math.max(told.oldestAgeMs, Date.now() - Math.min(...born), 0),
      }
    } catch (error) {
      this.onError(error)
      return 'unknown'
    }
  }

  /**
   * Lets sends and handlers that run end, and the clients say goodbye, for at most `drainMs` (default 5,000). What a handler
   * still holds after that goes to other consumers once `invisibleMs` have passed; so does a message that was on its way.
   */
  stop(o: { readonly drainMs?: number } = {}): Promise<void> {
    return this.life.stop(o, async (leftMs) => this.link?.close(leftMs()))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  private async open(): Promise<void> {
    const link = await BrokerLink.open(await loadModule(this.module), this.address)
    if (this.life.stopped) await link.close(0)
    else this.link = link
  }

  /** Never rejects. */
  private async put(batch: Batch, text: string): Promise<Sent> {
    try {
      if (!this.link) throw new FlashSaleError('QUEUE_UNAVAILABLE', 'this queue was not started')
      await this.link.producer.send({
        topic: this.address.topic,
        messageGroup: messageGroupOf(batch),
        keys: [batch.batchId],
        body: Buffer.from(text),
      })
      return 'accepted'
    } catch (error) {
      this.onError(error)
      return this.link ? outcomeOf(error) : 'rejected'
    }
  }
}

/** `activityId skuId`, or its hash where that is too long. */
function messageGroupOf({ activityId, skuId }: SkuRef): string {
  const group = `${activityId} ${skuId}`
  if (group.length <= LONGEST_GROUP) return group
  return createHash('sha256').update(group).digest('base64url')
}
