import { KnexFences, KnexLeases, KnexOrderBook } from 'flash-sale-kit/knex'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { until } from '../harness/net.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { spawnNode } from '../harness/spawn-node.js'
import { AUDIT, type Shop } from '../suites/pipeline/shop.js'
import { dumped, expectSound, halfSold, rush, settled } from '../suites/rebuild/kit.js'

const STEPS = [
  'setIf:before',
  'setIf:after',
  'control:after',
  'prepare:after',
  'topUps:after',
  'rebuildStageTopUps:before',
  'rebuildStageTopUps:after',
  'rebuildStage:before',
  'rebuildStage:after',
  'rebuildSwap:before',
  'rebuildSwap:after',
  'raise:before',
  'raise:after',
  'records:after',
  'numbers:after',
] as const

describe.each([
  ['FLUSHALL', 'mariadb', STEPS],
  ['a step back in time', 'mariadb', ['setIf:after', 'control:after', 'rebuildSwap:after']],
  ['FLUSHALL', 'postgres', ['setIf:after', 'rebuildStage:after', 'rebuildSwap:after']],
] as const)('after %s, a rebuild on %s', (loss, kind, steps) => {
  let redis: FreshRedis
  let database: FreshDatabase

  beforeAll(async () => {
    ;[redis, database] = await Promise.all([freshRedis(), freshDatabase(kind)])
    await KnexOrderBook.migrate(database.knex)
  })
  afterAll(async () => {
    await redis.destroy()
    await database.destroy()
  })

  async function killed(shop: Shop, fault: string): Promise<void> {
    const child = await spawnNode(new URL('./fixtures/rebuild-killed.ts', import.meta.url), {
      env: {
        REDIS_PORT: String(redis.server.port),
        DATABASE: JSON.stringify(database.address),
        ACTIVITY: shop.ref.activityId,
        FAULT: fault,
      },
    })
    await until(`the rebuilder dies at ${fault}`, () => !child.isAlive())
    expect((await child.exited).signal).toBe('SIGKILL')
  }

  test.each(steps)(
    'S10: killed at %s: nothing is sold of half a ledger, and whoever comes next makes it whole',
    async (step) => {
      await database.knex('seckill_activity_terms').update({ live: 0 })
      await database.knex('seckill_lease').del()
      const shop = await halfSold({ redis: redis.redis, knex: database.knex })
      const restore = await dumped(redis.redis, shop)
      expect(await shop.buy('late')).toMatchObject({ status: 'queued' })
      if (loss === 'FLUSHALL') await redis.redis.flushall()
      else await restore()
      await killed(shop, step)
      const heard = Object.keys(await rush(shop, 50))
      for (const status of heard) expect(['not-warmed', 'stopped', 'rewound']).toContain(status)

      const fences = new KnexFences({ knex: database.knex })
      const next = shop.restarted({ fences })
      const guardian = next.guardian({ leases: new KnexLeases({ knex: database.knex }) })
      await guardian.run()
      await guardian.stop()
      const { activityId } = shop.ref
      expect(await shop.options.control.read(activityId)).toMatchObject({ state: 'open' })
      expect(await shop.sale.stock.numbers(shop.ref)).toMatchObject({ state: 'open' })
      await expectSound(shop, 100)
      await settled(shop, 100)
      await until('this process has heard of it', async () => {
        const { status } = await shop.buy('next')
        return status !== 'stopped'
      })
      await next.stop()
      await shop.sale.control(activityId, 'stopped', AUDIT)
    },
  )
})
