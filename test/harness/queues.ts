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
      /** Without it its lag is unknown. */
      readonly metricsUrl?: string
    }
  | {
      readonly kind: 'kafka'
      readonly brokers: readonly string[]
      readonly topic: string
      readonly group: string
    }

/** Consumers that were killed are noticed as soon as each queue allows: tests and demos do not wait half a minute. */
export async function openQueue(address: QueueAddress, redis: RedisLike): Promise<Queue> {
  switch (address.kind) {
    case 'memory':
      return new MemoryQueue()
    case 'redis-streams':
      return new RedisStreamQueue({ redis, claimAfterMs: 2_000 })
    case 'rocketmq': {
      const { RocketmqQueue } = await import('flash-sale-kit/rocketmq')
      const { kind: _, ...named } = address
      return new RocketmqQueue({ ...named, invisibleMs: 10_000 })
    }
    case 'kafka': {
      const [{ KafkaQueue }, { Kafka, logLevel }] = await Promise.all([
        import('flash-sale-kit/kafka'),
        import('kafkajs'),
      ])
      const { brokers, topic, group } = address
      const kafka = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING })
      return new KafkaQueue({ kafka, topic, group, sessionTimeoutMs: 6_000 })
    }
    default:
      return address satisfies never
  }
}
