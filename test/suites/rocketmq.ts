import type { Batch, Queue } from 'flash-sale-kit'
import {
  type RocketmqModule,
  RocketmqQueue,
  type RocketmqQueueOptions,
} from 'flash-sale-kit/rocketmq'
import { Producer, SimpleConsumer } from 'rocketmq-client-nodejs'
import { newOrderNo } from '../../src/core/order-no.js'
import type { RocketmqServer } from '../harness/services/rocketmq.js'

/** Shorter than a proxy allows unless it is told so: `minInvisibleTimeMillsForRecv`. */
export const INVISIBLE_MS = 2_000
export const MAX_ATTEMPTS = 4
export const PROXY = { minInvisibleTimeMillsForRecv: 1_000 }

let topics = 0

/** A topic and group of its own, with as many instances as a test opens; each has clients of its own, as a process has. */
export class Topic {
  readonly topic = `t${++topics}`
  readonly group = `${this.topic}-workers`
  readonly dead: (Batch | string)[] = []
  readonly errors: unknown[] = []
  readonly #lines = new Map<Queue, Line>()
  #stranger: Producer | undefined

  constructor(readonly server: RocketmqServer) {}

  static async on(server: RocketmqServer): Promise<Topic> {
    const topic = new Topic(server)
    await server.createTopic(topic.topic, { type: 'FIFO' })
    await server.createGroup(topic.group)
    return topic
  }

  /** Not started. */
  make(o: Partial<RocketmqQueueOptions> = {}): RocketmqQueue {
    const line = new Line()
    const queue = new RocketmqQueue({
      endpoints: this.server.endpoints,
      topic: this.topic,
      group: this.group,
      sendTimeoutMs: 10_000,
      maxAttempts: MAX_ATTEMPTS,
      retryMs: 10,
      invisibleMs: INVISIBLE_MS,
      startTimeoutMs: 30_000,
      onDead: (message) => this.dead.push(message),
      onError: (error) => this.errors.push(error),
      module: line.module,
      ...o,
    })
    this.#lines.set(queue, line)
    return queue
  }

  async open(o: Partial<RocketmqQueueOptions> = {}): Promise<RocketmqQueue> {
    const queue = this.make(o)
    await queue.start()
    return queue
  }

  /** As kill -9: nothing the instance does afterwards arrives, and of calls under way it hears no answer. */
  async crash(queue: Queue): Promise<void> {
    const line = this.#lines.get(queue)
    if (line) line.isCut = true
  }

  /** As a stranger. */
  async inject(text: string): Promise<void> {
    this.#stranger ??= await this.client()
    await this.#stranger.send({
      ...{ topic: this.topic, messageGroup: 'suite s1', body: Buffer.from(text) },
    })
  }

  /** The client as it is. */
  async client(): Promise<Producer> {
    const logger = { debug() {}, info() {}, warn() {}, error() {}, close() {} }
    const { endpoints } = this.server
    const producer = new Producer({ endpoints, namespace: '', logger, maxAttempts: 1 })
    await producer.startup()
    return producer
  }

  async close(): Promise<void> {
    await Promise.all([...this.#lines.keys()].map((queue) => queue.stop({ drainMs: 2_000 })))
    await this.#stranger?.shutdown()
  }
}

/**
 * The client module, whose calls can be cut off for good: those under way reach the broker and fail here, as when a
 * connection breaks. None may stay open: a consumer waits for its calls before it stops.
 */
class Line {
  isCut = false
  readonly module: RocketmqModule

  constructor() {
    const check = () => {
      if (this.isCut) throw new Error('cut off')
    }
    const through = async <T>(call: () => Promise<T>): Promise<T> => {
      check()
      const answer = await call()
      check()
      return answer
    }
    this.module = {
      Producer: class extends Producer {
        override send(...args: Parameters<Producer['send']>) {
          return through(() => super.send(...args))
        }
      },
      SimpleConsumer: class extends SimpleConsumer {
        override receive(...args: Parameters<SimpleConsumer['receive']>) {
          return through(() => super.receive(...args))
        }
        override ack(...args: Parameters<SimpleConsumer['ack']>) {
          return through(() => super.ack(...args))
        }
        override changeInvisibleDuration(
          ...args: Parameters<SimpleConsumer['changeInvisibleDuration']>
        ) {
          return through(() => super.changeInvisibleDuration(...args))
        }
      },
    }
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

/** A deadline that no test reaches. */
export const signal = AbortSignal.timeout(3_600_000)
