import { MemoryQueue, type Queue, type RedisLike } from 'flash-sale-kit'
import type { Knex } from 'knex'
import type { Need } from '../../test/harness/binaries.js'
import { freshDatabase } from '../../test/harness/databases.js'
import { openQueue } from '../../test/harness/queues.js'
import { mockRedis } from '../../test/harness/redis.js'
import type { DemoOptions } from './options.js'

export interface Environment {
  readonly backend: string
  readonly redis: RedisLike
  readonly knex: Knex
  readonly queue: Queue
  close(): Promise<void>
}

/** The embedded default needs no server: the real Lua in ioredis-mock, SQLite in a scratch file. */
async function embedded(): Promise<Environment> {
  const database = await freshDatabase('sqlite')
  const redis = mockRedis()
  return {
    backend: 'ioredis-mock + sqlite + memory queue',
    redis,
    knex: database.knex,
    queue: new MemoryQueue(),
    async close() {
      redis.disconnect()
      await database.destroy()
    },
  }
}

/** Servers of its own on free loopback ports, stopped when the demo ends, however it ends. */
async function real({ db, queue: kind }: DemoOptions): Promise<Environment> {
  const { Redis } = await import('ioredis')
  const { provision } = await import('../provision.js')
  provision(needsOf(kind, db))
  const servers = await import('../../test/harness/services.js')
  const { address, stop } = await startQueue(kind)
  const [server, dbServer] = await Promise.all([
    servers.startRedis(),
    db === 'sqlite' ? null : START[db](servers),
  ])
  const database = await freshDatabase(db, dbServer ? { server: dbServer } : {})
  const redis = new Redis({ host: server.host, port: server.port })
  return {
    backend: `redis + ${db} + ${kind} queue`,
    redis,
    knex: database.knex,
    queue: await openQueue(address, redis),
    async close() {
      redis.disconnect()
      await database.destroy()
      await Promise.all([server.stop(), dbServer?.stop(), stop()])
    },
  }
}

type Servers = typeof import('../../test/harness/services.js')

const START = {
  mariadb: (servers: Servers) => servers.startMariadb(),
  mysql: (servers: Servers) => servers.startMysql(),
  postgres: (servers: Servers) => servers.startPostgres(),
}

function needsOf(queue: DemoOptions['queue'], db: DemoOptions['db']): Need[] {
  const brokers = queue === 'rocketmq' || queue === 'kafka'
  return [
    'core',
    ...(brokers ? (['brokers'] as const) : []),
    ...(db === 'mysql' ? (['mysql'] as const) : []),
  ]
}

async function startQueue(kind: DemoOptions['queue']) {
  const names = { topic: 'orders', group: 'workers' }
  const { startKafka, startRocketmq } = await import('../../test/harness/services.js')
  if (kind === 'rocketmq') {
    const broker = await startRocketmq()
    await broker.createTopic(names.topic, { type: 'FIFO' })
    await broker.createGroup(names.group)
    return {
      address: { kind, endpoints: broker.endpoints, ...names } as const,
      stop: () => broker.stop(),
    }
  }
  if (kind === 'kafka') {
    const broker = await startKafka()
    await broker.createTopic(names.topic)
    return {
      address: { kind, brokers: broker.brokers, ...names } as const,
      stop: () => broker.stop(),
    }
  }
  return { address: { kind } as const, stop: async () => {} }
}

export function openEnvironment(o: DemoOptions): Promise<Environment> {
  return o.real ? real(o) : embedded()
}
