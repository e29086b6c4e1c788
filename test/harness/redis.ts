import { Redis, type RedisOptions } from 'ioredis'
import RedisMock from 'ioredis-mock'
import { startRedis } from './services/redis.js'
import type { Server } from './services/server.js'

export interface FreshRedis {
  readonly redis: Redis
  readonly server: Server
  /** Another connection to the same server, closed by `destroy` too; `port` sends it through a proxy. */
  client(options?: RedisOptions): Redis
  destroy(): Promise<void>
}

/** A redis-server of its own (0.1 s) and a client on it: nothing is shared with other tests, whatever they flush or kill. */
export async function freshRedis(
  o: { readonly config?: Readonly<Record<string, string>> } = {},
): Promise<FreshRedis> {
  const server = await startRedis(o)
  const clients: Redis[] = []
  const client = (options: RedisOptions = {}) => {
    const redis = new Redis({ host: server.host, port: server.port, ...options })
    redis.on('error', () => {}) // a killed server is what some tests are about; commands still reject
    clients.push(redis)
    return redis
  }
  const destroy = async () => {
    for (const redis of clients) redis.disconnect()
    await server.stop()
  }
  return { redis: client(), server, client, destroy }
}

let mocks = 0

/** An ioredis-mock with data of its own: mocks of one host and port share theirs. Proves nothing about scripts. */
export function mockRedis(): Redis {
  return new RedisMock({ host: 'mock', port: ++mocks })
}
