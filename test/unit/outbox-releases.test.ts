import { KnexOrderBook } from 'flash-sale-kit/knex'
import { afterAll, beforeAll } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { mockRedis } from '../harness/redis.js'
import { releasesSuite } from '../suites/outbox/releases.js'

const redis = mockRedis()
let database: FreshDatabase

beforeAll(async () => {
  database = await freshDatabase('sqlite')
  await KnexOrderBook.migrate(database.knex)
})
afterAll(() => database.destroy())

releasesSuite(() => ({ redis, knex: database.knex }))
