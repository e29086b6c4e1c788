import { afterAll, beforeAll, describe, test } from 'vitest'
import type { QueueAddress } from '../harness/queues.js'
import { startKafka, startRocketmq } from '../harness/services.js'
import { besiegedSale, brokerOutage } from '../suites/crash/sale.js'

/** A long run sets it to 20,000. */
const OUTAGE_MS = Number(process.env.OUTAGE_MS ?? 8_000)
/** Then it is started again, which takes seconds more. */
const DEAD_MS = 1_000

const OUTAGES = [
  ['killed (-9) and restarted', 'SIGKILL', DEAD_MS],
  ['frozen for some seconds', 'SIGSTOP', OUTAGE_MS],
] as const

describe('RocketMQ and MariaDB', () => {
  let broker: Awaited<ReturnType<typeof startRocketmq>>
  beforeAll(async () => {
    broker = await startRocketmq()
  })
  afterAll(() => broker?.stop())

  /** Its own for each sale: what one leaves behind is no order of the next. */
  async function queue(name: string): Promise<QueueAddress> {
    await broker.createTopic(name, { type: 'FIFO' })
    await broker.createGroup(`${name}-workers`)
    const { endpoints } = broker
    return { kind: 'rocketmq', endpoints, topic: name, group: `${name}-workers` }
  }

  test('V3: failed sends, repeated clicks and killed consumers: difference 0', async () => {
    await besiegedSale('mariadb', await queue('orders'))
  })

  test.each(OUTAGES)('V3: broker %s in mid-sale: difference 0', async (_, signal, ms) => {
    await besiegedSale('mariadb', await queue(signal), brokerOutage(broker, signal, ms))
  })
})

describe('Kafka and PostgreSQL', () => {
  let broker: Awaited<ReturnType<typeof startKafka>>
  beforeAll(async () => {
    broker = await startKafka()
  })
  afterAll(() => broker?.stop())

  /** Its own for each sale: what one leaves behind is no order of the next. */
  async function queue(name: string): Promise<QueueAddress> {
    await broker.createTopic(name, { partitions: 4 })
    return { kind: 'kafka', brokers: broker.brokers, topic: name, group: `${name}-workers` }
  }

  test('V3: failed sends, repeated clicks and killed consumers: difference 0', async () => {
    await besiegedSale('postgres', await queue('orders'))
  })

  test.each(OUTAGES)('V3: broker %s in mid-sale: difference 0', async (_, signal, ms) => {
    await besiegedSale('postgres', await queue(signal), brokerOutage(broker, signal, ms))
  })
})
