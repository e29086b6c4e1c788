import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { RedisLike } from '../core/ports.js'
import { PullLoop } from '../core/pull-loop.js'
import type { BatchHandler, Consumer, Queue } from '../core/queue.js'
import { QueueLife } from '../core/queue-life.js'
import { quiet } from '../core/quiet.js'
import type { Batch, Sent } from '../core/types.js'
import { queueKeys } from '../redis/keys.js'
import { ScriptRunner } from '../redis/run-script.js'
import { type Entry, Stream } from './stream.js'
import { StreamSource } from './stream-source.js'

export interface RedisStreamQueueOptions {
  /** An ioredis client (5 or 6, also Cluster), which other parts may share: nothing here blocks it. The host closes it. */
  readonly redis: RedisLike
  /** Names the queue; its keys are `seckill:queue:{orders}` and `seckill:queue:{orders}:dead`. @defaultValue 'orders' */
  readonly stream?: string
  /** How long a consumer may be silent before its messages go to another, in ms. @defaultValue 30,000 */
  readonly claimAfterMs?: number
  /** Deliveries of one message before it is set aside. @defaultValue 16, which is 70 s of a database that is away */
  readonly maxAttempts?: number
  /**
   * Pause before a message is delivered again, in ms, doubled each time up to 64 times, but no longer than `claimAfterMs`.
   * @defaultValue 100
   */
  readonly retryMs?: number
  /** Longest pause between two looks at an empty stream, in ms; the first is 5. @defaultValue 50 */
  readonly pollMs?: number
  /** Deadline of one send, in ms; past it the outcome is `unknown`. @defaultValue 500 (the source's send timeout) */
  readonly sendTimeoutMs?: number
  /** Messages held at most; one that does not fit is `rejected`. @defaultValue 100,000 */
  readonly maxMessages?: number
  /** Told of a message that was set aside; of its text when that is no batch. It also lies in the dead stream. */
  readonly onDead?: (message: Batch | string, why: string) => void
  /** Told of what went wrong where no caller hears of it. */
  readonly onError?: (error: unknown) => void
}

/** Of a take, a settlement, a renewal: all may be repeated, so the limit only says when to try again. */
const COMMAND_TIMEOUT_MS = 2_000

/**
 * A queue in a Redis stream (Redis 6.0 and up), for installs without a broker. A message is in the stream until it was
 * acknowledged, so nothing needs trimming and its length is the lag.
 *
 * Consumers poll, each 5 to 50 ms, instead of blocking: a blocked connection could serve nothing else. A send wakes those
 * of its own process at once.
 */
export class RedisStreamQueue implements Queue {
  private readonly stream: Stream
  private readonly life = new QueueLife<PullLoop<Entry>>()
  private readonly settings: Readonly<Record<'maxAttempts' | 'retryMs' | 'pollMs', number>>
  private readonly maxMessages: number
  private readonly onDead: (message: Batch | string, why: string) => void
  private readonly onError: (error: unknown) => void

  constructor(o: RedisStreamQueueOptions) {
    check.object(o, 'options')
    if (typeof o.redis?.evalsha !== 'function' || typeof o.redis.eval !== 'function')
      check.fail('BAD_OPTION', 'option redis', 'a client with evalsha and eval', o.redis)
    this.stream = new Stream(
      new ScriptRunner(o.redis, COMMAND_TIMEOUT_MS),
      new ScriptRunner(o.redis, check.option(o.sendTimeoutMs, 'sendTimeoutMs', 500, 1, 60_000)),
      queueKeys(check.keyId(o.stream ?? 'orders', 'option stream')),
      check.option(o.claimAfterMs, 'claimAfterMs', 30_000, 100, 3_600_000),
    )
    this.settings = {
      maxAttempts: check.option(o.maxAttempts, 'maxAttempts', 16, 1, 1_000),
      retryMs: check.option(o.retryMs, 'retryMs', 100, 1, 60_000),
      pollMs: check.option(o.pollMs, 'pollMs', 50, 1, 10_000),
    }
    this.maxMessages = check.option(o.maxMessages, 'maxMessages', 100_000, 1, 10_000_000)
    this.onDead = quiet('onDead', o.onDead)
    this.onError = quiet('onError', o.onError)
  }

  /** Makes the consumer group, so that a Redis that refuses is met now and not in the sale. May be called again. */
  async start(): Promise<void> {
    this.life.refuseWhenStopped()
    await this.stream.take('', 0, '')
  }

  send(batch: Batch, o: { readonly signal: AbortSignal }): Promise<Sent> {
    return this.life.send(batch, o, (text) => this.put(text))
  }

  consume(handler: BatchHandler, o: { readonly maxBatches: number }): Consumer {
    const maxBatches = this.life.maxBatches(handler, o)
    const name = `${hostname()}:${process.pid}:${randomBytes(6).toString('hex')}`
    const source = new StreamSource({
      ...this.settings,
      stream: this.stream,
      name,
      handler,
      maxBatches,
      abandoned: this.life.abandoned,
      onDead: this.onDead,
      onError: this.onError,
    })
    const consumer = new PullLoop(source, async () => {
      this.life.consumers.delete(consumer)
      await this.stream.leave(name).catch(this.onError)
    })
    this.life.consumers.add(consumer)
    return consumer
  }

  /** What was sent and not yet acknowledged, also what is being handled; the age by Redis' own clock. */
  async lag(): ReturnType<Queue['lag']> {
    try {
      return await this.stream.lag()
    } catch (error) {
      this.onError(error)
      return 'unknown'
    }
  }

  /**
   * Lets sends and handlers that run end, for at most `drainMs` (default 5,000). What a handler still holds after that goes
   * to other consumers once `claimAfterMs` have passed.
   */
  stop(o: { readonly drainMs?: number } = {}): Promise<void> {
    return this.life.stop(o)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  /** Never rejects. */
  private async put(text: string): Promise<Sent> {
    try {
      if (!(await this.stream.send(text, this.maxMessages))) return 'rejected'
      for (const consumer of this.life.consumers) consumer.wake()
      return 'accepted'
    } catch (error) {
      this.onError(error)
      const unknown = !(error instanceof FlashSaleError) || error.code === 'OUTCOME_UNKNOWN'
      return unknown ? 'unknown' : 'rejected'
    }
  }
}
