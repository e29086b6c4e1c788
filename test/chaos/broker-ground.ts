import { startKafka, startRocketmq } from '../harness/services.js'
import type { Broker } from './stage.js'

export const BROKERS = ['rocketmq', 'kafka'] as const
export type BrokerKind = (typeof BROKERS)[number]

export async function openBroker(kind: BrokerKind): Promise<Broker> {
  return kind === 'rocketmq' ? openRocketmq() : openKafka()
}

async function openRocketmq(): Promise<Broker> {
  const broker = await startRocketmq()
  const queue: Broker['queue'] = async (topic, through) => {
    const group = `${topic}-workers`
    await broker.createTopic(topic, { type: 'FIFO' })
    await broker.createGroup(group)
    const { endpoints, metricsUrl } = broker
    return { kind: 'rocketmq', endpoints, topic, group, metricsUrl, through }
  }
  return Object.assign(broker, { queue })
}

async function openKafka(): Promise<Broker> {
  const broker = await startKafka()
  const queue: Broker['queue'] = async (topic, through) => {
    await broker.createTopic(topic, { partitions: 4 })
    return { kind: 'kafka', brokers: broker.brokers, topic, group: `${topic}-workers`, through }
  }
  return Object.assign(broker, { queue })
}
