import { setMaxListeners } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Batch, Delivery, Handled, Queue } from 'flash-sale-kit'
import { KafkaQueue, type KafkaQueueOptions } from 'flash-sale-kit/kafka'
import { Kafka, logLevel } from 'kafkajs'
import { newOrderNo } from '../../src/core/order-no.js'
import { until } from '../harness/net.js'
import type { KafkaServer } from '../harness/services/kafka.js'

export const SESSION_MS = 1_500
export const MAX_ATTEMPTS = 4

let topics = 0

/** A topic and group of its own, with as many instances as a test opens; each has connections of its own. */
export class Topic {
  readonly topic = `t${++topics}`
  readonly dead: (Batch | string)[] = []
  readonly errors: unknown[] = []
  readonly #lines = new Map<Queue, Line>()
  readonly kafka: Kafka

  constructor(readonly server: KafkaServer) {
    this.kafka = new Kafka({ brokers: server.brokers, logLevel: logLevel.NOTHING })
  }

  static async on(server: KafkaServer, o: { readonly partitions?: number } = {}): Promise<Topic> {
    const topic = new Topic(server)
    // A broker that has just started may not know yet that it leads the partition.
    await until('the topic is there', async () => {
      await server.createTopic(topic.topic, o)
      return true
    })
    return topic
  }

  /** @param through the port of a proxy in front of the broker */
  async open(o: Partial<KafkaQueueOptions> = {}, through?: number): Promise<KafkaQueue> {
    const line = new Line(this.server.brokers, through)
    const queue = new KafkaQueue({
      kafka: line.kafka,
      topic: this.topic,
      group: `${this.topic}-workers`,
      sendTimeoutMs: 10_000,
      maxAttempts: MAX_ATTEMPTS,
      retryMs: 10,
      pollMs: 50,
      sessionTimeoutMs: SESSION_MS,
      rebalanceTimeoutMs: 10_000,
      onDead: (message) => this.dead.push(message),
      onError: (error) => this.errors.push(error),
      ...o,
    })
    this.#lines.set(queue, line)
    await queue.start()
    return queue
  }

  /** As kill -9: nothing the instance does afterwards arrives. */
  async crash(queue: Queue): Promise<void> {
    this.#lines.get(queue)?.cut()
  }

  /** As a stranger. */
  async inject(value: string, topic = this.topic): Promise<void> {
    const producer = this.kafka.producer()
    await producer.connect()
    await producer.send({ topic, messages: [{ key: 'suite s1', value }] })
    await producer.disconnect()
  }

  async close(): Promise<void> {
    await Promise.all([...this.#lines.keys()].map((queue) => queue.stop({ drainMs: 3_000 })))
  }

  /** Every message of a topic, as a reader of its own group sees it. */
  async read(count: number, topic = this.topic) {
    const consumer = this.kafka.consumer({ groupId: `reader-${newOrderNo()}` })
    const values: string[] = []
    const headers: (string | undefined)[] = []
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    const all = new Promise<void>((resolve) => {
      void consumer.run({
        eachMessage: async ({ message }) => {
          values.push(String(message.value))
          headers.push(message.headers?.['why']?.toString())
          if (values.length >= count) resolve()
        },
      })
    })
    await Promise.race([all, sleep(20_000)])
    await consumer.disconnect()
    return { values, headers }
  }

  async committed(): Promise<readonly string[]> {
    const admin = this.kafka.admin()
    await admin.connect()
    try {
      const answer = await admin.fetchOffsets({
        groupId: `${this.topic}-workers`,
        topics: [this.topic],
      })
      return answer[0]?.partitions.map((p) => p.offset) ?? []
    } finally {
      await admin.disconnect()
    }
  }
}

/** A kafkajs client whose sockets can be cut for good. */
class Line {
  readonly kafka: Kafka
  readonly #sockets = new Set<Socket>()
  #down = false

  constructor(brokers: string[], through?: number) {
    this.kafka = new Kafka({
      brokers,
      logLevel: logLevel.NOTHING,
      retry: { retries: 5, initialRetryTime: 100, maxRetryTime: 1_000 },
      socketFactory: ({ host, port, onConnect }) => {
        const socket = connect({ host, port: this.#down ? 1 : (through ?? port) }, onConnect)
        this.#sockets.add(socket)
        socket.once('close', () => this.#sockets.delete(socket))
        return socket
      },
    })
  }

  cut(): void {
    this.#down = true
    for (const socket of this.#sockets) socket.destroy()
  }
}

export function batchOf(users = 1, skuId = 's1'): Batch {
  const ref = { activityId: 'a1', skuId }
  const reservations = Array.from({ length: users }, (_, i) => ({
    ...ref,
    orderNo: newOrderNo(),
    userId: `u${i}`,
    quantity: 1,
    bucket: 0,
    version: 'v1',
    reservedAt: 1_790_000_000_000,
  }))
  return { schema: 1, batchId: newOrderNo(), ...ref, reservations }
}

export const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** A deadline that no test reaches. */
export const signal = AbortSignal.timeout(3_600_000)
setMaxListeners(0, signal)

/** A consumer that writes down what it gets. */
export function collect(
  queue: Queue,
  answer: (d: Delivery) => Handled | Promise<Handled> = () => 'ack',
  maxBatches = 16,
) {
  const seen: Delivery[] = []
  const handler = async (d: Delivery): Promise<Handled> => {
    seen.push(d)
    return answer(d)
  }
  const consumer = queue.consume(handler, { maxBatches })
  const ids = () => seen.flatMap((d) => d.batches.map((b) => b.batchId))
  return { seen, ids, consumer }
}
