import { KnexOrderBook } from 'flash-sale-kit/knex'
import { afterAll, beforeAll } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { mockRedis } from '../harness/redis.js'
import { orderSagaSuite } from '../suites/saga/order.js'
import { sagaRefundSuite } from '../suites/saga/refund.js'

const redis = mockRedis()
let database: FreshDatabase

beforeAll(async () => {
  database = await freshDatabase('sqlite')
  await KnexOrderBook.migrate(database.knex)
})
afterAll(() => database.destroy())

orderSagaSuite(() => ({ redis, knex: database.knex }))
sagaRefundSuite('sqlite')
