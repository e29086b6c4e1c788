import { MemoryQueue, type Queue, type RedisLike } from 'flash-sale-kit'
import { RedisStreamQueue } from 'flash-sale-kit/redis-streams'

/** Enough to open the queue again, also in another process: plain JSON. */
export type QueueAddress =
  | { readonly kind: 'memory' | 'redis-streams' }
  | {
      readonly kind: 'rocketmq'
      readonly endpoints: string
      readonly topic: string
      readonly group: string
    }
  | {
      readonly kind: 'kafka'
      readonly brokers: string
      readonly topic: string
      readonly group: string
    }

export async function openQueue(address: QueueAddress, redis: RedisLike): Promise<Queue> {
  switch (address.kind) {
    case 'memory':
      return new MemoryQueue()
    case 'redis-streams':
      return new RedisStreamQueue({ redis, claimAfterMs: 2_000 })
    default:
      throw new Error(`${address.kind}: not yet`)
  }
}
