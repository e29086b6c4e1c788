import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { TriangleReconciler } from 'flash-sale-kit'
import { nodeHandler } from 'flash-sale-kit/http'
import { KnexOrderBook } from 'flash-sale-kit/knex'
import { expect, test } from 'vitest'
import { freshDatabase } from '../harness/databases.js'
import { until } from '../harness/net.js'
import { mockRedis } from '../harness/redis.js'
import { faultsOf, sendBurst, wholeSale } from '../harness/whole-sale.js'
import { openShop } from '../suites/pipeline/shop.js'

test.each(['mariadb', 'postgres'] as const)(
  'V2 V3: 50,000 POSTs, 10 % repeated, for 1,000 units on two processes and %s end in exactly 1,000 orders',
  async (db) => {
    const result = await wholeSale({ db })
    expect(faultsOf(result, { requests: 50_000, units: 1_000 })).toEqual([])
  },
  300_000,
)

test('V2: the same through HTTP on the embedded default: ioredis-mock, SQLite, memory queue', async () => {
  const database = await freshDatabase('sqlite')
  const { knex } = database
  await KnexOrderBook.migrate(knex)
  const shop = await openShop(
    { redis: mockRedis(), knex },
    {
      units: 1_000,
      activity: { tokens: 'required', maxPerOrder: 1 },
      sale: { stock: { maxWaitMs: 10_000, timeoutMs: 10_000 } },
    },
  )
  const { sale, ref } = shop
  sale.worker({ ordersPerSecond: 5_000 })
  sale.relay()
  await sale.start()
  const buyer = (req: IncomingMessage) => ({ userId: String(req.headers['x-demo-user']), ip: '' })
  const server = createServer(nodeHandler(sale, { buyer })).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const token = async (userId: string) => {
    const issued = await sale.token(ref.activityId, { userId, ip: '' })
    return issued.status === 'issued' ? issued.token : ''
  }
  const { codes, told } = await sendBurst({
    ...{ requests: 50_000, duplicates: 0.1, connections: 200 },
    ...{ ports: [port], path: `/api/seckill/${ref.activityId}/${ref.skuId}/submit`, token },
  })
  await until('every order is decided', async () => (await sale.stock.numbers(ref)).waiting === 0)
  const live = new Map<string, string>()
  for await (const row of shop.orders.snapshot(ref))
    if (row.status !== 'closed') live.set(row.orderNo, row.userId)
  const { activities, orders } = shop
  const report = await new TriangleReconciler({ stock: sale.stock, orders, activities }).inspect(
    ref.activityId,
  )
  server.closeAllConnections()
  server.close()
  await sale.stop()
  await database.destroy()
  const result = { codes, told, live, shopOrders: live.size, report, exitCodes: [] }
  expect(faultsOf(result, { requests: 50_000, units: 1_000 })).toEqual([])
}, 300_000)
