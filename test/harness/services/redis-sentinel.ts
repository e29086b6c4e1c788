import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { need } from '../binaries.js'
import { LOOPBACK, until } from '../net.js'
import { removeScratch, scratchFolder } from '../scratch.js'
import { ask, startRedis } from './redis.js'
import { runServer, type Server } from './server.js'

export interface RedisSentinel {
  /** What clients ask the sentinels for, and where these are. */
  readonly name: string
  readonly ports: readonly number[]
  /** Who was what at the start. */
  readonly master: Server
  readonly replica: Server
  /** Of the master, as the sentinels see it now. */
  masterPort(): Promise<number>
  /** From now on the replica falls behind, and knows no more than it does at this moment. */
  severReplication(): Promise<void>
  stop(): Promise<void>
}

const NAME = 'sale'

/** A master, a replica and three sentinels, which notice a master's death after one second. */
export async function startRedisSentinel(): Promise<RedisSentinel> {
  const master = await startRedis()
  const servers = [master]
  const stop = async () => {
    await Promise.all(servers.map((server) => server.stop()))
  }
  try {
    const replica = await startRedis({ config: { replicaof: [LOOPBACK, String(master.port)] } })
    servers.push(replica)
    await until('the replica follows', async () => {
      return (await infoOf(replica.port)).includes('master_link_status:up')
    })
    const sentinels = await Promise.all([1, 2, 3].map(() => startSentinel(master.port)))
    servers.push(...sentinels)
    const ports = sentinels.map((s) => s.port)
    await until('the sentinels know each other and the replica', async () => {
      const known = await Promise.all(ports.map(knownTo))
      return known.every((k) => k['num-slaves'] === '1' && k['num-other-sentinels'] === '2')
    })
    return {
      name: NAME,
      ports,
      master,
      replica,
      masterPort: () => masterOf(ports),
      severReplication,
      stop,
    }

    async function severReplication() {
      await ask(master.port, async (redis) => {
        await redis.call('ACL', 'SETUSER', 'default', '-psync', '-sync')
        await redis.call('CLIENT', 'KILL', 'TYPE', 'replica')
      })
    }
  } catch (error) {
    await stop()
    throw error
  }
}

function startSentinel(masterPort: number): Promise<Server> {
  const folder = scratchFolder('sentinel')
  const file = join(folder, 'sentinel.conf') // which it writes to
  const rules = [
    `monitor ${NAME} ${LOOPBACK} ${masterPort} 2`,
    `down-after-milliseconds ${NAME} 1000`,
    `failover-timeout ${NAME} 5000`,
  ]
  writeFileSync(file, rules.map((rule) => `sentinel ${rule}\n`).join(''))
  return runServer({
    name: 'redis-sentinel',
    command: need('redis-server'),
    args: (port) => [
      file,
      ...['--sentinel', '--port', String(port), '--bind', LOOPBACK, '--dir', folder],
    ],
    ready: (port) => ask(port, async (redis) => (await redis.ping()) === 'PONG'),
    cleanUp: () => removeScratch(folder),
  })
}

function infoOf(port: number): Promise<string> {
  return ask(port, (redis) => redis.info('replication'))
}

async function knownTo(port: number): Promise<Record<string, string | undefined>> {
  const fields = await ask(port, (redis) => redis.call('SENTINEL', 'MASTER', NAME))
  const list = fields as string[]
  return Object.fromEntries(list.flatMap((name, i) => (i % 2 ? [] : [[name, list[i + 1]]])))
}

/** Any of them will do; one that has not heard yet names the old one. */
async function masterOf(ports: readonly number[]): Promise<number> {
  const [, port] = (await ask(ports[0] as number, (redis) =>
    redis.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME),
  )) as [string, string]
  return Number(port)
}
