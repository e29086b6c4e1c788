import { connect } from 'node:net'
import { MemoryQueue, type Queue, type RedisLike } from 'flash-sale-kit'
import { RedisStreamQueue } from 'flash-sale-kit/redis-streams'
import type { ISocketFactory } from 'kafkajs'
import { openTunnel } from './connect-tunnel.js'

/** Enough to open the queue again, also in another process: plain JSON. `through` is the port of a proxy before its broker. */
export type QueueAddress =
  | { readonly kind: 'memory' | 'redis-streams' }
  | {
      readonly kind: 'rocketmq'
      readonly endpoints: string
      readonly topic: string
      readonly group: string
      /** Without it its lag is unknown. */
      readonly metricsUrl?: string
      readonly through?: number
    }
  | {
      readonly kind: 'kafka'
      readonly brokers: readonly string[]
      readonly topic: string
      readonly group: string
      readonly through?: number
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
      const { kind: _, through, ...named } = address
      if (through !== undefined) process.env.grpc_proxy = await openTunnel(through)
      return new RocketmqQueue({ ...named, invisibleMs: 10_000 })
    }
    case 'kafka': {
      const [{ KafkaQueue }, { Kafka, logLevel }] = await Promise.all([
        import('flash-sale-kit/kafka'),
        import('kafkajs'),
      ])
      const { brokers, topic, group, through } = address
      const kafka = new Kafka({
        brokers: [...brokers],
        logLevel: logLevel.NOTHING,
        ...(through === undefined ? {} : { socketFactory: socketsThrough(through) }),
      })
      return new KafkaQueue({ kafka, topic, group, sessionTimeoutMs: 6_000 })
    }
    default:
      return address satisfies never
  }
}

/** The broker names its own address to its clients; these go through the proxy nevertheless. */
function socketsThrough(port: number): ISocketFactory {
  return ({ host, onConnect }) => connect({ host, port, keepAlive: true }, onConnect)
}
