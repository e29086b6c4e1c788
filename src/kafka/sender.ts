import { setTimeout as sleep } from 'node:timers/promises'
import { within } from '../core/background.js'
import { FlashSaleError } from '../core/errors.js'
import type { Sent } from '../core/types.js'
import type { KafkaLike, KafkaProducer } from './client.js'
import { isRefusal, mayPass } from './errors.js'

const TRY_AGAIN_MS = 50
/**
 * A frozen broker leaves each send with kafkajs for its request timeout (30 s by default), long after our own deadline;
 * this much of it is kept in memory, and what comes on top is not begun.
 */
const MAX_UNANSWERED_BYTES = 64 * 1024 * 1024

/**
 * Sends single messages and says what is known of each.
 *
 * Not with an idempotent producer: that of kafkajs 2.2.4 takes a sequence number back when a connection breaks. The next
 * send then uses the number of a message that may have been stored, the broker takes it for the duplicate, and answers
 * "stored". A duplicate does no harm here; a message that was accepted and is nowhere does. It also allows one request
 * at a time for each broker.
 */
export class Sender {
  private connecting: Promise<KafkaProducer> | null = null
  private unanswered = 0

  constructor(
    private readonly kafka: KafkaLike,
    private readonly timeoutMs: number,
    private readonly onError: (error: unknown) => void,
  ) {}

  async connect(): Promise<void> {
    await this.producer()
  }

  /** Never rejects, and answers within the timeout; the attempt that runs goes on. */
  async send(topic: string, key: string, value: string, headers = {}): Promise<Sent> {
    const bytes = Buffer.byteLength(value)
    if (this.unanswered + bytes > MAX_UNANSWERED_BYTES) return 'unknown'
    this.unanswered += bytes
    const until = performance.now() + this.timeoutMs
    const record = { topic, acks: -1, messages: [{ key, value, headers }] }
    const sending = this.tryUntil(until, record).finally(() => {
      this.unanswered -= bytes
    })
    return within(sending, this.timeoutMs, () => {
      const why = `no answer to a send within ${this.timeoutMs} ms`
      this.onError(new FlashSaleError('OUTCOME_UNKNOWN', `Kafka: ${why}`))
      return 'unknown'
    })
  }

  async close(): Promise<void> {
    await this.connecting?.then((producer) => producer.disconnect()).catch(this.onError)
  }

  /**
   * kafkajs is asked for one attempt at a time: of several it reports the last error only, and a no to the second says
   * nothing about the first. A refusal after an attempt of unknown outcome is unknown.
   */
  private async tryUntil(
    until: number,
    record: Parameters<KafkaProducer['send']>[0],
  ): Promise<Sent> {
    let doubtful = false
    for (;;) {
      try {
        await (await this.producer()).send(record)
        return 'accepted'
      } catch (error) {
        const last = performance.now() + TRY_AGAIN_MS >= until
        if (!isRefusal(error)) doubtful = true
        if (last || (isRefusal(error) && !mayPass(error))) {
          this.onError(error)
          return doubtful ? 'unknown' : 'rejected'
        }
      }
      await sleep(TRY_AGAIN_MS)
    }
  }

  private producer(): Promise<KafkaProducer> {
    this.connecting ??= this.open().catch((error) => {
      this.connecting = null
      throw error
    })
    return this.connecting
  }

  private async open(): Promise<KafkaProducer> {
    const producer = this.kafka.producer({
      idempotent: false,
      allowAutoTopicCreation: false,
      retry: { retries: 0 },
    })
    try {
      await producer.connect()
    } catch (error) {
      await producer.disconnect().catch(() => {})
      throw error
    }
    return producer
  }
}
