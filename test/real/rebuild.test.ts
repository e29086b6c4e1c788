import { KnexOrderBook } from 'flash-sale-kit/knex'
import { afterAll, beforeAll, describe } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { rebuildSuite } from '../suites/rebuild/cases.js'

describe.each(['mariadb', 'postgres'] as const)('on Redis and %s', (kind) => {
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

  rebuildSuite(() => ({ redis: redis.redis, knex: database.knex }))
})
