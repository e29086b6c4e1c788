import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { RateLimiter, TokenIssuer } from 'flash-sale-kit'
import { KnexLeases, KnexOrderBook } from 'flash-sale-kit/knex'
import { RedisStreamQueue } from 'flash-sale-kit/redis-streams'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { until } from '../harness/net.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { AUDIT, openShop } from '../suites/pipeline/shop.js'

const page = readFileSync(
  fileURLToPath(new URL('../../docs/operating.md', import.meta.url)),
  'utf8',
)

let redis: FreshRedis
let db: FreshDatabase
beforeAll(async () => {
  redis = await freshRedis()
  db = await freshDatabase('mariadb')
  await KnexOrderBook.migrate(db.knex)
})
afterAll(async () => {
  await redis.destroy()
  await db.destroy()
})

test('the rights that operating.md prints are enough for a sale, its queue, its limits and a rebuild, and no more', async () => {
  const [line] = page.match(/^ACL SETUSER shop .*$/m) ?? []
  if (!line) throw new Error('operating.md prints no ACL SETUSER')
  const [command = '', ...rest] = line.replace('>…', '>pw').split(' ')
  await redis.redis.call(command, ...rest)
  const client = redis.client({ username: 'shop', password: 'pw' })
  const queue = new RedisStreamQueue({ redis: client, stream: 'acl' })
  const shop = await openShop(
    { redis: client, knex: db.knex },
    {
      activity: { tokens: 'required' },
      sale: {
        queue,
        tokens: new TokenIssuer({ store: client }),
        limiter: new RateLimiter({
          redis: client,
          resources: {
            submit: { total: { burst: 50, perSecond: 50 }, user: { burst: 5, perSecond: 5 } },
          },
        }),
      },
    },
  )
  const { sale, ref } = shop
  const { activityId } = ref
  sale.worker({ ordersPerSecond: 1_000 })
  sale.relay()
  sale.guardian({ leases: new KnexLeases({ knex: db.knex }) })
  await sale.start()
  const buyer = { userId: 'u1', ip: '::1' }
  const issued = await sale.token(activityId, buyer)
  if (issued.status !== 'issued') throw new Error(issued.status)
  const bought = await sale.submit({ ...ref, buyer, token: issued.token })
  expect(bought).toMatchObject({ status: 'queued' })
  await until('it is confirmed', async () => (await shop.result('u1')).status === 'confirmed')
  await sale.topUp(ref, 5, `${activityId}-op`, AUDIT)
  await sale.revokeTokens(activityId, AUDIT)
  expect(await sale.rebuild(activityId, AUDIT, { reopen: true })).toMatchObject({
    status: 'rebuilt',
    state: 'open',
  })
  expect(await sale.stock.numbers(ref)).toMatchObject({ total: 15, frozen: 1 })
  expect(shop.alerts.filter((code) => code !== 'eviction-policy')).toEqual([])

  for (const denied of [['FLUSHALL'], ['CONFIG', 'GET', '*'], ['GET', 'another'], ['KEYS', '*']])
    await expect(client.call(denied[0] as string, ...denied.slice(1)), denied[0]).rejects.toThrow(
      'NOPERM',
    )
})
