import type { Redis } from 'ioredis'
import { startRedis } from '../harness/services/redis.js'
import { type RedisNodes, startRedisNodes } from '../harness/services/redis-nodes.js'
import { type RedisSentinel, startRedisSentinel } from '../harness/services/redis-sentinel.js'
import type { Server } from '../harness/services/server.js'
import { TcpProxy } from '../harness/tcp-proxy.js'
import { openRedis, type RedisAddress } from './addresses.js'

export interface SingleRedis {
  readonly server: Server
  /** The shops come through it. */
  readonly proxy: TcpProxy
  /** Past the proxy. */
  readonly admin: Redis
}

/** The Redis of a sale, which a scenario breaks: the one it `needs`, the others throw. */
export interface RedisGround {
  /** How the shops reach it. */
  readonly shops: RedisAddress
  /** How the operator does, past what is broken. */
  readonly direct: RedisAddress
  readonly single: SingleRedis
  readonly sentinel: RedisSentinel
  readonly nodes: RedisNodes
  stop(): Promise<void>
}

export type RedisKind = 'single' | 'sentinel' | 'nodes'

export function openRedisGround(kind: RedisKind): Promise<RedisGround> {
  switch (kind) {
    case 'single':
      return openSingle()
    case 'sentinel':
      return openSentinel()
    case 'nodes':
      return openNodes()
    default:
      return kind satisfies never
  }
}

async function openSingle(): Promise<RedisGround> {
  const server = await startRedis()
  const proxy = await TcpProxy.to(server.port)
  const direct = { kind: 'single', port: server.port } as const
  const admin = openRedis(direct) as Redis
  const stop = async () => {
    admin.disconnect()
    await proxy.close()
    await server.stop()
  }
  return ground({ kind: 'single', port: proxy.port }, direct, stop, {
    single: { server, proxy, admin },
  })
}

async function openSentinel(): Promise<RedisGround> {
  const sentinel = await startRedisSentinel()
  const address = { kind: 'sentinel', name: sentinel.name, ports: sentinel.ports } as const
  return ground(address, address, sentinel.stop, { sentinel })
}

async function openNodes(): Promise<RedisGround> {
  const nodes = await startRedisNodes()
  const address = { kind: 'cluster', ports: nodes.ports } as const
  return ground(address, address, nodes.stop, { nodes })
}

function ground(
  shops: RedisAddress,
  direct: RedisAddress,
  stop: () => Promise<void>,
  parts: Partial<Pick<RedisGround, RedisKind>>,
): RedisGround {
  const part = <K extends RedisKind>(kind: K): RedisGround[K] => {
    const found = parts[kind]
    if (!found) throw new Error(`a scenario whose Redis is ${kind} says so in \`needs\``)
    return found as RedisGround[K]
  }
  return {
    ...{ shops, direct, stop },
    get single() {
      return part('single')
    },
    get sentinel() {
      return part('sentinel')
    },
    get nodes() {
      return part('nodes')
    },
  }
}
