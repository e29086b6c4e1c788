import { Redis } from 'ioredis'
import { need } from '../binaries.js'
import { freePort, LOOPBACK, until } from '../net.js'
import { removeScratch, scratchFolder } from '../scratch.js'
import { runServer, type Server } from './server.js'

/** Words of redis.conf; several for one that takes several, as in `{ replicaof: ['127.0.0.1', '6379'] }`. */
export type RedisConfig = Readonly<Record<string, string | readonly string[]>>

/**
 * A redis-server without persistence, up in 0.1 s. `config` takes the words of redis.conf, for example
 * `{ appendonly: 'yes', appendfsync: 'always' }` or `{ maxmemory: '8mb', 'maxmemory-policy': 'allkeys-lru' }`.
 */
export async function startRedis(
  o: { readonly config?: RedisConfig; readonly port?: number } = {},
): Promise<Server> {
  const folder = scratchFolder('redis')
  const config = { save: '', appendonly: 'no', ...o.config }
  const settings = Object.entries(config).flatMap(([word, values]) => [`--${word}`, values].flat())
  return runServer({
    name: 'redis-server',
    command: need('redis-server'),
    ...(o.port === undefined ? {} : { port: o.port }),
    args: (port) => ['--port', String(port), '--bind', LOOPBACK, '--dir', folder, ...settings],
    ready: (port) => ask(port, async (redis) => (await redis.ping()) === 'PONG'),
    cleanUp: () => removeScratch(folder),
  })
}

/** A one-node cluster that holds all 16,384 slots: it refuses what a cluster refuses, at the price of one process. */
export async function startRedisCluster(
  o: { readonly config?: RedisConfig } = {},
): Promise<Server> {
  const server = await startRedis({
    config: {
      'cluster-enabled': 'yes',
      'cluster-config-file': 'nodes.conf',
      // Unless told it would be 10,000 above the other, where outgoing connections are.
      'cluster-port': String(await freePort()),
      ...o.config,
    },
  })
  await ask(server.port, async (redis) => {
    await redis.cluster('ADDSLOTSRANGE', 0, 16_383)
    return true
  })
  await until('the cluster has all its slots', () =>
    ask(server.port, async (redis) => String(await redis.cluster('INFO')).includes('state:ok')),
  )
  return server
}

/** Puts one question over a connection of its own; rejects while nobody answers. */
export async function ask<T>(port: number, question: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis({
    host: LOOPBACK,
    port,
    lazyConnect: true,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
  })
  redis.on('error', () => {}) // "not yet" is told by the rejection of the command
  try {
    await redis.connect()
    return await question(redis)
  } finally {
    redis.disconnect()
  }
}
