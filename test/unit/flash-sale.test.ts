import { KnexOrderBook } from 'flash-sale-kit/knex'
import { afterAll, beforeAll } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { mockRedis } from '../harness/redis.js'
import { flashSaleSuite } from '../suites/pipeline/flash-sale.js'
import { reconcileSuite } from '../suites/pipeline/reconcile.js'

const redis = mockRedis()
let database: FreshDatabase

beforeAll(async () => {
  database = await freshDatabase('sqlite')
  await KnexOrderBook.migrate(database.knex)
})
afterAll(() => database.destroy())

flashSaleSuite(() => ({ redis, knex: database.knex }))
reconcileSuite(() => ({ redis, knex: database.knex }))
