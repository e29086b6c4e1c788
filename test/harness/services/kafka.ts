import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Kafka, logLevel } from 'kafkajs'
import { artifact } from '../artifacts.js'
import { need } from '../binaries.js'
import { accepts, freePort, LOOPBACK } from '../net.js'
import { removeScratch, scratchFolder } from '../scratch.js'
import { jvmArgs } from './jvm.js'
import { properties } from './properties.js'
import { runServer, type Server } from './server.js'

export interface KafkaServer extends Server {
  /** What a client is given: `127.0.0.1:<port>`. */
  readonly brokers: string[]
  /** One partition, in which everything keeps its order, unless more are asked for. */
  createTopic(name: string, o?: { readonly partitions?: number }): Promise<void>
}

/**
 * A Kafka of one node, broker and controller in one process, up in 3 s on two quiet cores. Topics are only what
 * `createTopic` made. Keeps acknowledged messages over kill -9 (the system has them, if not the disk).
 *
 * `config` takes the words of server.properties.
 */
export async function startKafka(
  o: { readonly config?: Readonly<Record<string, string>> } = {},
): Promise<KafkaServer> {
  const made = artifact('kafka')
  const folder = scratchFolder('kafka')
  const settings = join(folder, 'server.properties')
  const [port, controllerPort] = [await freePort(), await freePort()]
  cpSync(join(made, 'formatted'), join(folder, 'data'), { recursive: true })
  writeFileSync(join(folder, 'log4j2.yaml'), LOGGING)
  writeFileSync(
    settings,
    properties({ ...kafkaConfig(join(folder, 'data'), port, controllerPort), ...o.config }),
  )
  const server = await runServer({
    name: 'kafka',
    port,
    command: need('java'),
    args: () => [
      ...jvmArgs({
        jars: join(made, 'lib'),
        heapMb: 512,
        flags: [`-Dlog4j2.configurationFile=${join(folder, 'log4j2.yaml')}`],
      }),
      ...['kafka.Kafka', settings],
    ],
    ready: async (_, output) => output().includes('Kafka Server started') && (await accepts(port)),
    startWithinMs: 60_000,
    cleanUp: () => removeScratch(folder),
  })
  const brokers = [`${LOOPBACK}:${port}`]
  const createTopic: KafkaServer['createTopic'] = async (topic, { partitions = 1 } = {}) => {
    const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
    try {
      await admin.createTopics({
        waitForLeaders: true,
        topics: [{ topic, numPartitions: partitions, replicationFactor: 1 }],
      })
    } finally {
      await admin.disconnect()
    }
  }
  return Object.assign(server, { brokers, createTopic })
}

/** Also what the storage is formatted with, where the ports do not matter. */
export function kafkaConfig(data: string, port: number, controllerPort: number) {
  return {
    'process.roles': 'broker,controller',
    'node.id': '1',
    'controller.quorum.voters': `1@${LOOPBACK}:${controllerPort}`,
    listeners: `PLAINTEXT://${LOOPBACK}:${port},CONTROLLER://${LOOPBACK}:${controllerPort}`,
    'advertised.listeners': `PLAINTEXT://${LOOPBACK}:${port}`,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'log.dirs': data,
    'log.segment.bytes': '67108864',
    'auto.create.topics.enable': 'false',
    // Fifty partitions of each are made at first use otherwise, and of three copies, for which there are no nodes.
    'offsets.topic.num.partitions': '4',
    'offsets.topic.replication.factor': '1',
    'transaction.state.log.num.partitions': '4',
    'transaction.state.log.replication.factor': '1',
    'transaction.state.log.min.isr': '1',
    'share.coordinator.state.topic.replication.factor': '1',
    'share.coordinator.state.topic.min.isr': '1',
    // After kill -9 the broker is let in again only when its former session has run out: 9 s by default.
    'broker.session.timeout.ms': '3000',
    'broker.heartbeat.interval.ms': '300',
    'group.initial.rebalance.delay.ms': '0', // a consumer alone need not wait 3 s for others
  }
}

const LOGGING = `
Configuration:
  Appenders:
    Console: { name: C, PatternLayout: { pattern: "[%d] %p %m (%c)%n" } }
  Loggers:
    Root: { level: WARN, AppenderRef: [ { ref: C } ] }
    Logger: [ { name: kafka.server.KafkaRaftServer, level: INFO } ]
`
