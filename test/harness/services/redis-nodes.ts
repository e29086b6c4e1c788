import { freePort, LOOPBACK, until } from '../net.js'
import { ask, startRedis } from './redis.js'
import type { Server } from './server.js'

export interface RedisNodes {
  readonly ports: readonly number[]
  /** The master that has the key now. */
  masterOf(key: string): Promise<Server>
  stop(): Promise<void>
}

const SLOTS = 16_384
const MASTERS = 3

/** A cluster of three masters with a replica each, which takes over a second after its master's death is noticed. */
export async function startRedisNodes(): Promise<RedisNodes> {
  const nodes: Server[] = []
  const stop = async () => {
    await Promise.all(nodes.map((node) => node.stop()))
  }
  const buses = new Map<number, number>()
  const launch = async () => {
    const bus = await freePort()
    const config = {
      'cluster-enabled': 'yes',
      'cluster-config-file': 'nodes.conf',
      'cluster-port': String(bus),
      'cluster-node-timeout': '1000',
      'cluster-require-full-coverage': 'no',
      // A replica may take over however long its master has been silent: there is no other.
      'cluster-replica-validity-factor': '0',
    }
    const node = await startRedis({ config })
    nodes.push(node)
    buses.set(node.port, bus)
  }
  try {
    await Promise.all(Array.from({ length: 2 * MASTERS }, launch))
    const ports = nodes.map((node) => node.port)
    await join(ports, buses)
    const masterOf = async (key: string) => {
      const owner = await ownerOf(nodes, key)
      return nodes.find((node) => node.port === owner) as Server
    }
    return { ports, masterOf, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function join(ports: readonly number[], buses: ReadonlyMap<number, number>): Promise<void> {
  const [first = 0] = ports
  const masters = ports.slice(0, MASTERS)
  const cluster = (port: number, ...words: (string | number)[]) =>
    ask(port, (redis) => redis.call('CLUSTER', ...words))
  for (const [i, port] of ports.entries()) {
    await cluster(port, 'SET-CONFIG-EPOCH', i + 1)
    if (port !== first) await cluster(first, 'MEET', LOOPBACK, port, buses.get(port) as number)
  }
  const share = Math.ceil(SLOTS / MASTERS)
  for (const [i, port] of masters.entries())
    await cluster(port, 'ADDSLOTSRANGE', i * share, Math.min(SLOTS, (i + 1) * share) - 1)
  const ids = await Promise.all(masters.map((port) => cluster(port, 'MYID')))
  for (const [i, port] of ports.slice(MASTERS).entries()) {
    const follow = async () => (await cluster(port, 'REPLICATE', String(ids[i]))) === 'OK'
    await until('the replica knows its master', follow)
  }
  const ready = async (port: number) => {
    const info = String(await cluster(port, 'INFO'))
    const wanted = ['state:ok', `slots_ok:${SLOTS}`, `known_nodes:${ports.length}`]
    return wanted.every((line) => info.includes(`cluster_${line}`))
  }
  const follows = async (port: number) =>
    (await ask(port, (redis) => redis.info('replication'))).includes('master_link_status:up')
  await until('the cluster is whole', async () => {
    const states = await Promise.all([...ports.map(ready), ...ports.slice(MASTERS).map(follows)])
    return states.every(Boolean)
  })
}

/** As any node that is alive sees it. */
async function ownerOf(nodes: readonly Server[], key: string): Promise<number | undefined> {
  const alive = nodes.find((node) => node.isAlive())
  return ask(alive?.port ?? 0, async (redis) => {
    const slot = Number(await redis.call('CLUSTER', 'KEYSLOT', key))
    const ranges = (await redis.call('CLUSTER', 'SLOTS')) as [
      from: number,
      to: number,
      master: [host: string, port: number],
    ][]
    return ranges.find(([from, to]) => from <= slot && slot <= to)?.[2][1]
  })
}
