import { KnexOrderBook } from 'flash-sale-kit/knex'
import { afterAll, beforeAll, describe } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { releasesSuite } from '../suites/outbox/releases.js'

describe.each(['mariadb', 'mysql', 'postgres'] as const)('on Redis and %s', (kind) => {
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

  releasesSuite(() => ({ redis: redis.redis, knex: database.knex }))
})
