import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { until } from '../../harness/net.js'
import { REF } from '../sale.js'
import type { Scenario } from '../scenario.js'
import type { Stage } from '../stage.js'

const SIZE = { units: 300, buyers: 500, concurrency: 20, pauseMs: 150 }
const REBUILT = 'for as long as the rebuild takes `not-warmed`, then `stopped`; never `sold-out`'

/** In mid-sale, and so that there is something left to sell afterwards. */
async function disturbed(stage: Stage, broken: () => Promise<void>): Promise<void> {
  await stage.sold(1 / 4)
  await stage.during(broken)
}

/** The guardian saw it; else the scenario has broken nothing. */
function noticed({ shops }: Stage): Promise<void> {
  const lost = () => shops.some((s) => /^alert redis-lost /m.test(s.process.output()))
  return until('a guardian has noticed the loss', lost, 60_000)
}

/** Some seconds, or until little is left: a fault through which the sale goes on. */
async function aWhile(stage: Stage): Promise<void> {
  const { stock, units } = stage.sale
  const end = performance.now() + stage.size.outageMs
  while (performance.now() < end && (await stock.numbers(REF)).available > units / 4)
    await sleep(50)
}

const slow: Scenario = {
  name: 'redis-slow',
  about: 'Redis answers 200 ms later, for some seconds',
  buyerSees: '`queued`, later than usual; `busy` where more click than can be asked for',
  size: { ...SIZE, concurrency: 60, pauseMs: 300 },
  run: (stage) =>
    disturbed(stage, async () => {
      stage.redis.single.proxy.delay(200)
      await aWhile(stage)
      stage.redis.single.proxy.pass()
    }),
}

const replyLost: Scenario = {
  name: 'redis-reply-lost',
  about: 'every tenth script is run, and its connection breaks in place of the reply',
  buyerSees: '`queued`: the client sends again and hears the first answer; else `unknown`',
  size: SIZE,
  run: (stage) =>
    disturbed(stage, async () => {
      const { proxy } = stage.redis.single
      proxy.swallowReply({ matching: /evalsha/i, always: true, share: 0.1 })
      await aWhile(stage)
      proxy.pass()
      stage.expect(proxy.counts.swallowed > 0, 'no reply was lost')
    }),
}

const killed: Scenario = {
  name: 'redis-killed',
  about: 'Redis dies by kill -9 and is started again after a second, without data',
  buyerSees: `\`unknown\` or \`busy\` while it is away, then ${REBUILT}`,
  size: SIZE,
  async run(stage) {
    await disturbed(stage, async () => {
      const { server } = stage.redis.single
      await server.kill('SIGKILL')
      await sleep(1_000)
      await server.restart()
    })
    await noticed(stage)
  },
}

const flushed: Scenario = {
  name: 'redis-flushall',
  about: 'FLUSHALL',
  buyerSees: REBUILT,
  size: SIZE,
  async run(stage) {
    await disturbed(stage, async () => {
      await stage.redis.single.admin.flushall()
    })
    await noticed(stage)
  },
}

const failover: Scenario = {
  name: 'redis-failover',
  about: 'Sentinel: the replica falls behind, the master dies by kill -9, the replica takes over',
  buyerSees: '`unknown` or `busy` until the replica has taken over, then `rewound` and `stopped`',
  needs: { redis: 'sentinel' },
  size: SIZE,
  async run(stage) {
    const { sentinel } = stage.redis
    await stage.sold(1 / 4)
    await sentinel.severReplication()
    await aWhile(stage) // this the replica does not know; after ten seconds the sentinels would not trust it
    await stage.during(async () => {
      await sentinel.master.kill('SIGKILL')
      const over = async () => (await sentinel.masterPort()) === sentinel.replica.port
      await until('the replica has taken over', over)
    })
    await sentinel.master.restart() // as a replica of the other, in time
    await noticed(stage)
  },
}

const nodeKilled: Scenario = {
  name: 'redis-cluster-node-killed',
  about: 'Cluster of three masters with a replica each: the master of the sale dies by kill -9',
  buyerSees: '`unknown` or `busy` until its replica has taken over',
  needs: { redis: 'nodes' },
  size: SIZE,
  run: (stage) =>
    disturbed(stage, async () => {
      const { nodes } = stage.redis
      const key = `{${REF.activityId}}`
      const master = await nodes.masterOf(key)
      await master.kill('SIGKILL')
      await until('a replica has taken over', async () => (await nodes.masterOf(key)).isAlive())
    }),
}

const oom: Scenario = {
  name: 'redis-oom',
  about: `Redis is full (noeviction) of other people's keys, for some seconds`,
  buyerSees: '`unavailable`: the script is refused whole, no unit leaves',
  size: SIZE,
  run: (stage) =>
    disturbed(stage, async () => {
      const { admin } = stage.redis.single
      await fill(admin)
      await stage.outage()
      await admin.unlink('other')
    }),
}

/** Somebody else's list takes all that is left, to the last byte. */
async function fill(admin: Redis): Promise<void> {
  const used = Number(/used_memory:(\d+)/.exec(await admin.info('memory'))?.[1])
  await admin.config('SET', 'maxmemory', String(used + 1_000_000))
  for (const bytes of [10_000, 1_000, 100, 10])
    for (let full = false; !full; )
      full = await admin.rpush('other', 'x'.repeat(bytes)).then(
        () => false,
        () => true,
      )
}

const frozen: Scenario = {
  name: 'redis-frozen',
  about: 'Redis stands still (SIGSTOP), for some seconds',
  buyerSees: '`unknown` after a second, `busy` at once for those behind him',
  size: SIZE,
  run: (stage) =>
    disturbed(stage, async () => {
      const { server } = stage.redis.single
      await server.kill('SIGSTOP')
      await stage.outage()
      await server.kill('SIGCONT')
    }),
}

const cut: Scenario = {
  name: 'redis-cut',
  about: 'every connection to Redis is reset, and new ones at once, for some seconds',
  buyerSees: '`unknown` after a second, `busy` at once for those behind him',
  size: SIZE,
  run: (stage) =>
    disturbed(stage, async () => {
      const { proxy } = stage.redis.single
      proxy.cut()
      await stage.outage()
      proxy.pass()
    }),
}

export const redisScenarios: readonly Scenario[] = [
  slow,
  replyLost,
  killed,
  flushed,
  failover,
  nodeKilled,
  oom,
  frozen,
  cut,
]
