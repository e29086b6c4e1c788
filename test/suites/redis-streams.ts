import type { Batch, Delivery, Handled, Queue } from 'flash-sale-kit'
import { RedisStreamQueue, type RedisStreamQueueOptions } from 'flash-sale-kit/redis-streams'
import type { Redis } from 'ioredis'
import { newOrderNo } from '../../src/core/order-no.js'
import type { FreshRedis } from '../harness/redis.js'

export const CLAIM_MS = 300
export const MAX_ATTEMPTS = 4

let streams = 0

/** A stream of its own, with as many instances as a test opens; each has a connection of its own, as a process has. */
export class Topic {
  readonly stream = `t${++streams}`
  readonly key = `seckill:queue:{${this.stream}}`
  readonly deadKey = `${this.key}:dead`
  readonly dead: (Batch | string)[] = []
  readonly errors: unknown[] = []
  readonly #clients = new Map<Queue, Redis>()

  constructor(private readonly fresh: FreshRedis) {}

  async open(
    o: Partial<RedisStreamQueueOptions> & { readonly port?: number } = {},
  ): Promise<RedisStreamQueue> {
    const { port, ...options } = o
    const redis = this.fresh.client(port === undefined ? {} : { port })
    const queue = new RedisStreamQueue({
      redis,
      stream: this.stream,
      claimAfterMs: CLAIM_MS,
      maxAttempts: MAX_ATTEMPTS,
      retryMs: 10,
      onDead: (message) => this.dead.push(message),
      onError: (error) => this.errors.push(error),
      ...options,
    })
    this.#clients.set(queue, redis)
    await queue.start()
    return queue
  }

  /** As kill -9: nothing the instance does afterwards arrives. */
  async crash(queue: Queue): Promise<void> {
    this.#clients.get(queue)?.disconnect()
  }

  async close(): Promise<void> {
    await Promise.all([...this.#clients.keys()].map((queue) => queue.stop({ drainMs: 1_000 })))
    for (const redis of this.#clients.values()) redis.disconnect()
  }

  /** Names in the group, in any order. */
  async consumers(): Promise<readonly string[]> {
    const rows = (await this.fresh.redis.xinfo('CONSUMERS', this.key, 'workers')) as string[][]
    return rows.map((row) => String(row[1]))
  }
}

export function batchOf(users = 1): Batch {
  const ref = { activityId: 'a1', skuId: 's1' }
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

export const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** A deadline that no test reaches. */
export const signal = AbortSignal.timeout(3_600_000)

/** A consumer that writes down what it gets. */
export function collect(
  queue: RedisStreamQueue,
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
export const idsOf = (batches: readonly Batch[]) => batches.map((b) => b.batchId)
