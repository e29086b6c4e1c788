import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Activity, FlashSale, MemoryQueue, TokenIssuer } from 'flash-sale-kit'
import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from 'flash-sale-kit/knex'
import { type DatabaseAddress, freshDatabase } from '../../test/harness/databases.js'
import { freePort } from '../../test/harness/net.js'
import type { RunningProcess } from '../../test/harness/process.js'
import { freshRedis } from '../../test/harness/redis.js'
import { removeScratch, scratchFolder } from '../../test/harness/scratch.js'
import { startMariadb } from '../../test/harness/services.js'
import { spawnNode } from '../../test/harness/spawn-node.js'

/**
 * `library` is the pipeline as a host has it: once Redis has said "sold out", a mark in the process says so for 250 ms.
 * `unmarked` forgets that after 1 ms, so that nearly every click has its token verified and goes to Redis. `express` is the
 * example. The others do nothing with what they read.
 */
export const CONTESTANTS = ['bare', 'library', 'unmarked', 'expressEmpty', 'express'] as const
export type Contestant = (typeof CONTESTANTS)[number]

/** Whether a contestant really sells, or only answers. */
export function sells(who: Contestant): boolean {
  return who !== 'bare' && who !== 'expressEmpty'
}

const AUDIT = { actor: 'bench', reason: 'bench http' }
const SERVER = new URL('./http-server.ts', import.meta.url)
const EXAMPLE = new URL('../../examples/express/server.ts', import.meta.url)
/** The package as it ships and not its sources, in which tsx gives every closure a name at run time. */
const BUILT = new URL('./tsconfig.built.json', import.meta.url).pathname

/** Redis, MariaDB, and all serving processes, which idle while it is not their turn. */
export async function setUp(processes: number) {
  execFileSync('npm', ['run', 'build'], { stdio: 'ignore' })
  const folder = scratchFolder('bench-http')
  const redis = await freshRedis()
  const mariadb = await startMariadb()
  const database = await freshDatabase('mariadb', { server: mariadb })
  const { knex } = database
  await KnexOrderBook.migrate(knex)
  const tokenKey = randomBytes(32).toString('base64')
  const redisUrl = `redis://${redis.server.host}:${redis.server.port}`
  const activities = new KnexActivityStore({ knex })
  const tokens = new TokenIssuer({ keys: [{ kid: 'k1', secret: Buffer.from(tokenKey, 'base64') }] })
  const sale = new FlashSale({
    redis: redis.redis,
    queue: new MemoryQueue(),
    orders: new KnexOrderBook({ knex }),
    activities,
    control: new KnexActivityControl({ knex }),
    tokens,
  })

  const children = new Map<Contestant, RunningProcess[]>()
  const serve = async (who: Contestant, count: number) => {
    const ports: number[] = []
    for (let i = 0; i < count; i++) {
      const port = await freePort()
      const options = { who, port, redisUrl, database: database.address, tokenKey }
      const env = {
        TSX_TSCONFIG_PATH: BUILT,
        REDIS_URL: redisUrl,
        DB_URL: urlOf(database.address),
        TOKEN_KEY: tokenKey,
        PORT: String(port),
      }
      const child =
        who === 'express'
          ? await spawnNode(EXAMPLE, { env })
          : await spawnNode(SERVER, { args: [JSON.stringify(options)], env })
      children.set(who, [...(children.get(who) ?? []), child])
      await child.line(/^listening/)
      ports.push(port)
    }
    return ports
  }

  return {
    ports: {
      bare: await serve('bare', processes),
      library: await serve('library', processes),
      unmarked: await serve('unmarked', processes),
      expressEmpty: await serve('expressEmpty', 1),
      express: await serve('express', 1),
    } satisfies Record<Contestant, readonly number[]>,

    /** What the processes of a contestant have used of the cores so far. */
    cpuMicros(who: Contestant): number {
      return (children.get(who) ?? []).reduce((sum, { pid }) => sum + cpuMicrosOf(pid), 0)
    },

    /** Puts an activity on sale and writes its crowd to a file: one buyer and his token a line. */
    async prepare(activityId: string, who: Contestant, people: number, units: number) {
      const activity = activityOf(activityId, units)
      if (sells(who)) {
        await activities.save(activity)
        await sale.warmUp(activityId, AUDIT)
        await sale.control(activityId, 'open', AUDIT)
      }
      const terms = { expiresAt: activity.endsAt, epoch: 1 }
      const lines: string[] = []
      for (let i = 0; i < people; i++)
        lines.push(`user-${i} ${await tokens.issue({ activityId, userId: `user-${i}` }, terms)}`)
      const file = join(folder, activityId)
      writeFileSync(file, `${lines.join('\n')}\n`)
      return file
    },

    /** How many ms from now the last order is in the database. There must be one for each unit, not more, not fewer. */
    async lastOrder(activityId: string, units: number): Promise<number> {
      const since = performance.now()
      for (;;) {
        const orders = await knex('seckill_order')
          .where({ activity_id: activityId, status: 'CONFIRMED' })
          .pluck('order_no')
        const waited = performance.now() - since
        if (orders.length === units) return waited
        if (orders.length > units || waited > 10_000)
          throw new Error(`${orders.length} orders for ${units} units of ${activityId}`)
        await sleep(10)
      }
    },

    async tearDown() {
      await Promise.all([...children.values()].flat().map((child) => child.stop()))
      await sale.stop()
      await database.destroy()
      await mariadb.stop()
      await redis.destroy()
      removeScratch(folder)
    },
  }
}

function urlOf(address: DatabaseAddress): string {
  if (address.kind === 'sqlite') throw new Error('not for SQLite')
  const { user, password, host, port, database } = address
  return `mysql://${user}:${password}@${host}:${port}/${database}`
}

function activityOf(activityId: string, units: number): Activity {
  return {
    activityId,
    version: 'v1',
    opensAt: Date.now() - 1_000,
    endsAt: Date.now() + 3_600_000,
    payWithinMs: 900_000,
    mode: 'queued',
    tokens: 'required',
    maxPerOrder: 1,
    skus: [{ skuId: 'phone', units, priceMinor: 9_900, currency: 'CNY' }],
  }
}

/** utime and stime, fields 14 and 15 of proc(5), in ticks of 10 ms. */
function cpuMicrosOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ')
  return (Number(fields[13]) + Number(fields[14])) * 10_000
}
