import { fileURLToPath } from 'node:url'
import { FlashSale } from 'flash-sale-kit'
import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from 'flash-sale-kit/knex'
import { RocketmqQueue } from 'flash-sale-kit/rocketmq'
import { Redis } from 'ioredis'
import { type DatabaseAddress, freshDatabase, openDatabase } from '../../test/harness/databases.js'
import { startMariadb, startRedis, startRocketmq } from '../../test/harness/services.js'
import { spawnNode } from '../../test/harness/spawn-node.js'

/** One that has no consumer. */
export const SINGLE_TOPIC = 'bench-singles'

interface Address {
  readonly redisPort: number
  readonly database: DatabaseAddress
  readonly endpoints: string
  /** Without it the queue only sends. */
  readonly group?: string
}

/** Redis, MariaDB with flushed commits, RocketMQ; a sale that sends in this process, its worker in another. */
export async function setUp() {
  const [redis, server, broker] = await Promise.all([
    startRedis(),
    startMariadb({ flush: 1 }),
    startRocketmq(),
  ])
  const db = await freshDatabase('mariadb', { server })
  await KnexOrderBook.migrate(db.knex)
  for (const topic of ['bench', SINGLE_TOPIC]) await broker.createTopic(topic, { type: 'FIFO' })
  await broker.createGroup('bench-workers')
  const { endpoints } = broker
  const address: Address = { redisPort: redis.port, database: db.address, endpoints }
  const { sale, activities, close } = open(address)
  sale.relay()
  await sale.start()
  const worker = await spawnNode(import.meta.filename, {
    args: [JSON.stringify({ ...address, group: 'bench-workers' })],
  })
  await worker.line(/^working/)
  return {
    ...{ sale, activities, endpoints, knex: db.knex },
    async tearDown() {
      await worker.stop()
      await close()
      await db.destroy()
      await Promise.all([redis.stop(), server.stop(), broker.stop()])
    },
  }
}

function open({ redisPort, database, endpoints, group }: Address) {
  const redis = new Redis({ port: redisPort, host: '127.0.0.1' })
  const knex = openDatabase(database)
  const activities = new KnexActivityStore({ knex })
  const queue = new RocketmqQueue({ endpoints, topic: 'bench', ...(group ? { group } : {}) })
  const sale = new FlashSale({
    ...{ redis, queue, activities, orders: new KnexOrderBook({ knex }) },
    control: new KnexActivityControl({ knex }),
    // Where the cores are elsewhere for a while nobody is to hear `busy`: the rate is measured here.
    stock: { maxWaitMs: 10_000 },
    events: { onAlert: (code, detail) => console.error(code, detail) },
  })
  const close = async () => {
    await sale.stop()
    redis.disconnect()
    await knex.destroy()
  }
  return { sale, activities, close }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { sale } = open(JSON.parse(process.argv[2] ?? 'null') as Address)
  sale.worker({ ordersPerSecond: 100_000 })
  await sale.start()
  console.log('working')
}
