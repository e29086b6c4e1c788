import { KnexOrderBook } from 'flash-sale-kit/knex'
import { afterAll, beforeAll, describe } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { orderSagaSuite } from '../suites/saga/order.js'
import { sagaRefundSuite } from '../suites/saga/refund.js'

describe.each(['mariadb', 'mysql', 'postgres'] as const)('orderSaga on Redis and %s', (kind) => {
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

  orderSagaSuite(() => ({ redis: redis.redis, knex: database.knex }))
})

for (const kind of ['mariadb', 'mysql', 'postgres'] as const) sagaRefundSuite(kind)
