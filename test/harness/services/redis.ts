import { Redis } from 'ioredis'
import { need } from '../binaries.js'
import { LOOPBACK, until } from '../net.js'
import { removeScratch, scratchFolder } from '../scratch.js'
import { runServer, type Server } from './server.js'

/**
 * A redis-server without persistence, up in 0.1 s. `config` takes the words of redis.conf, for example
 * `{ appendonly: 'yes', appendfsync: 'always' }` or `{ maxmemory: '8mb', 'maxmemory-policy': 'allkeys-lru' }`.
 */
export async function startRedis(
  o: { readonly config?: Readonly<Record<string, string>>; readonly port?: number } = {},
): Promise<Server> {
  const folder = scratchFolder('redis')
  const config = { save: '', appendonly: 'no', ...o.config }
  const settings = Object.entries(config).flatMap(([word, value]) => [`--${word}`, value])
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
  o: { readonly config?: Readonly<Record<string, string>> } = {},
): Promise<Server> {
  const server = await startRedis({
    config: { 'cluster-enabled': 'yes', 'cluster-config-file': 'nodes.conf', ...o.config },
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

async function ask(port: number, question: (redis: Redis) => Promise<boolean>): Promise<boolean> {
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
