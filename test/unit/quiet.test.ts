import { EventEmitter } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  ActivityGate,
  BackpressureGate,
  CompensationSaga,
  type FlashSaleOptions,
  MemoryQueue,
  OutboxDispatcher,
  Payments,
  RateLimiter,
  ReconcileRunner,
  StockBucket,
  StockDisplay,
  signedQueue,
  TriangleReconciler,
} from 'flash-sale-kit'
import { SeckillRoutes } from 'flash-sale-kit/http'
import { KafkaQueue } from 'flash-sale-kit/kafka'
import { KnexOrderBook } from 'flash-sale-kit/knex'
import { RedisStreamQueue } from 'flash-sale-kit/redis-streams'
import { RocketmqQueue, TransactionSender } from 'flash-sale-kit/rocketmq'
import { SandboxPayments } from 'flash-sale-kit/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { quiet } from '../../src/core/quiet.js'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { until } from '../harness/net.js'
import { mockRedis } from '../harness/redis.js'
import { batchOf } from '../suites/kafka.js'
import { openShop, type ShopOptions } from '../suites/pipeline/shop.js'
import { reservation } from '../suites/reconcile/world.js'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase('sqlite')
  await KnexOrderBook.migrate(database.knex)
})
afterAll(() => database.destroy())

/** What a host may pass where nothing is to be returned. */
interface Told {
  (): Promise<void>
  readonly calls: number
}

const signal = AbortSignal.timeout(600_000)
const gone = async (): Promise<never> => {
  throw new Error('away')
}
const redisAway = { evalsha: gone, eval: gone }
const openShopWith = (o: ShopOptions = {}) =>
  openShop({ redis: mockRedis(), knex: database.knex }, o)
const shopWith = (events: NonNullable<FlashSaleOptions['events']>) =>
  openShopWith({ sale: { events } })

/** Started until it has told. */
async function whileRuns(
  it: { start(): Promise<void>; stop(): Promise<void> },
  told: Told,
): Promise<void> {
  await it.start()
  await until('it has told', () => told.calls > 0)
  await it.stop()
}

/** Just enough of kafkajs: sends fail, and one message that nobody can read comes in. */
function kafkaOf() {
  const eachBatch = {
    batch: { partition: 0, messages: [{ offset: '0', value: Buffer.from('?') }] },
    resolveOffset: () => {},
    heartbeat: async () => {},
    pause: () => () => {},
    commitOffsetsIfNecessary: async () => {},
  }
  const line = { connect: async () => {}, disconnect: async () => {} }
  return {
    producer: () => ({ ...line, send: gone }),
    admin: () => ({
      ...line,
      listTopics: async () => ['t'],
      fetchOffsets: async () => [{ topic: 't', partitions: [] }],
    }),
    consumer: () => {
      let joined = () => {}
      return {
        ...line,
        subscribe: async () => {},
        pause: () => {},
        resume: () => {},
        on: (event: string, listener: () => void) => {
          if (event === 'consumer.group_join') joined = listener
        },
        run: async (o: { eachBatch: (payload: object) => Promise<void> }) => {
          joined()
          await o.eachBatch(eachBatch)
        },
      }
    },
  } as never
}

/** Just enough of RocketMQ's client: one message that nobody can read comes in, and transactions cannot be ended. */
function rocketmqOf(messageType: number) {
  class Client {
    readonly rpcClientManager = { close() {} }
    private received = 0
    async startup() {}
    async shutdown() {}
    createTelemetryStream = () => new EventEmitter()
    onSettingsCommand() {}
    onUnknownCommand() {}
    getRouteData = async () => ({ messageQueues: [{ acceptMessageTypesList: [messageType] }] })
    send = async () => ({})
    beginTransaction = () => ({ commit: gone, rollback: gone })
    ack = async () => ({})
    async receive() {
      await sleep(5)
      return this.received++ === 0 ? [{ body: Buffer.from('?'), receiptHandle: 'r' }] : []
    }
  }
  return { Producer: Client, SimpleConsumer: Client } as never
}

const saga = {
  store: { take: gone } as never,
  definition: { kind: 'k', steps: [{ name: 's', do: gone, undo: gone }] } as never,
}

/** By option; each has the callback called. */
const OPTIONS: Record<string, (told: Told) => Promise<unknown>> = {
  'FlashSale events.onAlert': async (onAlert) => {
    const { sale } = await shopWith({ onAlert })
    sale.setAside('?', 'unreadable')
  },
  'FlashSale events.onRefused': async (onRefused) => {
    const { buy } = await shopWith({ onRefused })
    await buy('u1', { skuId: 'none' })
  },
  'BackpressureGate onChange': (onChange) => {
    const probe = { name: 'p', high: 1, low: 0, read: () => 5 }
    return whileRuns(new BackpressureGate({ probes: [probe], onChange }), onChange)
  },
  'BackpressureGate onError': (onError) => {
    const probe = { name: 'p', high: 1, low: 0, read: gone }
    return whileRuns(new BackpressureGate({ probes: [probe], onError }), onError)
  },
  'ActivityGate onError': async (onError) => {
    const parts = { activities: { load: gone } as never, control: { read: gone } as never }
    await new ActivityGate({ ...parts, onError }).look('a1')
  },
  'StockDisplay onError': (onError) =>
    new StockDisplay({ read: gone, onError }).show({ activityId: 'a1', skuId: 's1' }),
  'RateLimiter onError': (onError) => {
    const resources = { submit: { total: { burst: 9, perSecond: 9 } } }
    const limiter = new RateLimiter({ redis: redisAway, resources, onError })
    return limiter.check({ resource: 'submit', userId: 'u1', ip: '203.0.113.9' })
  },
  'MemoryQueue onDead': async (onDead) => {
    const queue = new MemoryQueue({ onDead })
    queue.consume(async () => 'dead', { maxBatches: 1 })
    await queue.send(batchOf())
    await until('it has told', () => onDead.calls > 0)
    await queue.stop()
  },
  'signedQueue onForged': async (onForged) => {
    const queue = new MemoryQueue()
    const keys = [{ kid: 'k', secret: Buffer.alloc(32, 1) }]
    signedQueue(queue, { keys, onForged }).consume(async () => 'ack', { maxBatches: 1 })
    await queue.send(batchOf())
    await until('it has told', () => onForged.calls > 0)
    await queue.stop()
  },
  'SeckillRoutes onError': (onError) => {
    const sale = { token: gone, submit: gone, result: gone }
    const buyer = { userId: 'u1', ip: '203.0.113.9' }
    return new SeckillRoutes(sale, { onError }).token({ activityId: 'a1', buyer })
  },
  'OutboxDispatcher onAlert': (onAlert) => {
    const parts = { outbox: { take: gone } as never, topics: { t: async () => {} } }
    return whileRuns(new OutboxDispatcher({ ...parts, onAlert }), onAlert)
  },
  'CompensationSaga events.onAlert': (onAlert) =>
    whileRuns(new CompensationSaga({ ...saga, events: { onAlert } }), onAlert),
  'Payments events.onAlert': (onAlert) => {
    const parts = { book: { findPayment: async () => null } as never, orders: {} as never }
    const providers = [new SandboxPayments({ channel: 'wx' })]
    const payments = new Payments({ ...parts, providers, events: { onAlert } })
    const forged = { channel: 'wx', paymentId: 'p', tradeNo: 't', amountMinor: 1, currency: 'CNY' }
    return payments.notice({ ...forged, verified: false })
  },
  'TriangleReconciler events.onAlert': async (onAlert) => {
    const shop = await openShopWith()
    await shop.orders.confirm([reservation(shop, 'u1')]) // Redis knows nothing of it
    const { orders, activities } = shop
    const parts = { stock: shop.sale.stock, orders, activities, settleMs: 0 }
    await new TriangleReconciler({ ...parts, events: { onAlert } }).inspect(shop.ref.activityId)
  },
  'TriangleReconciler onProgress': async (onProgress) => {
    const { sale, orders, activities, ref } = await openShopWith()
    const parts = { stock: sale.stock, orders, activities }
    await new TriangleReconciler({ ...parts, onProgress }).inspect(ref.activityId)
  },
  'ReconcileRunner events.onAlert': (onAlert) =>
    new ReconcileRunner({ ...reconciling(gone), events: { onAlert } }).run(),
  'ReconcileRunner onReport': (onReport) =>
    new ReconcileRunner({ ...reconciling(async () => ({ findings: [] })), onReport }).run(),
  'StockBucket onError': async (onError) => {
    const { redis, ref } = await openShopWith()
    const stock = new StockBucket({ redis, deliver: gone, onError })
    await stock.deduct({ ...ref, version: '1', userId: 'u1' })
  },
  'RedisStreamQueue onError': (onError) =>
    new RedisStreamQueue({ redis: redisAway, onError }).lag(),
  'RedisStreamQueue onDead': async (onDead) => {
    // It takes a message that nobody can read, sets it aside, and finds no more.
    const replies: unknown[] = [
      [1, '-', '1-0', 1, '?'],
      [1, '1-0'],
    ]
    const evalsha = async () => replies.shift() ?? [1, '-']
    const queue = new RedisStreamQueue({ redis: { evalsha, eval: evalsha }, onDead })
    queue.consume(async () => 'ack', { maxBatches: 1 })
    await until('it has told', () => onDead.calls > 0)
    await queue.stop()
  },
  'KafkaQueue onError': (onError) =>
    new KafkaQueue({ kafka: kafkaOf(), topic: 't', sendTimeoutMs: 20, onError }).send(batchOf(), {
      signal,
    }),
  'KafkaQueue onDead': async (onDead) => {
    const queue = new KafkaQueue({ kafka: kafkaOf(), topic: 't', onDead })
    queue.consume(async () => 'ack', { maxBatches: 1 })
    await until('it has told', () => onDead.calls > 0)
    await queue.stop()
  },
  'RocketmqQueue onError': (onError) =>
    new RocketmqQueue({ endpoints: 'proxy:8081', topic: 't', onError }).send(batchOf(), { signal }),
  'RocketmqQueue onDead': async (onDead) => {
    const address = { endpoints: 'proxy:8081', topic: 't', group: 'g' }
    const queue = new RocketmqQueue({ ...address, module: rocketmqOf(2), onDead })
    await queue.start()
    queue.consume(async () => 'ack', { maxBatches: 1 })
    await until('it has told', () => onDead.calls > 0)
    await queue.stop()
  },
  'TransactionSender onError': async (onError) => {
    const address = { endpoints: 'proxy:8081', topic: 't' }
    const committed = async () => false
    const sender = new TransactionSender({ ...address, module: rocketmqOf(4), committed, onError })
    await sender.start()
    await sender.send({ bizNo: 'n1', payload: 1 }, async () => {})
    await sender.stop()
  },
}

const reconciling = (inspect: () => Promise<unknown>) => ({
  reconciler: { inspect } as never,
  activities: { live: async () => ['a1'], load: async () => null } as never,
  leases: { take: async () => ({ renew: async () => true, release: async () => {} }) } as never,
})

describe('what a callback of the host throws, or rejects with later, ends nothing', () => {
  it.each(Object.entries(OPTIONS))('%s', async (_, use) => {
    const unhandled: unknown[] = []
    const hear = (error: unknown) => unhandled.push(error)
    process.on('unhandledRejection', hear)
    try {
      for (const later of [true, false]) {
        const told = Object.assign(
          () => {
            told.calls++
            if (later) return Promise.reject(new Error('the pager is down'))
            throw new Error('the pager is down')
          },
          { calls: 0 },
        )
        await use(told)
        expect(told.calls).toBeGreaterThan(0)
      }
      await sleep(5)
      expect(unhandled).toEqual([])
    } finally {
      process.off('unhandledRejection', hear)
    }
  })
})

describe('quiet', () => {
  it('calls a method as one, and refuses what is no function', () => {
    const pager = {
      heard: '',
      say(text: string) {
        this.heard = text
      },
    }
    quiet('say', pager.say, pager)('help')
    expect(pager.heard).toBe('help')
    quiet('none', undefined)()
    for (const bad of [null, 5, {}])
      expect(() => quiet('onAlert', bad as never)).toThrow(
        expect.objectContaining({ code: 'BAD_OPTION' }),
      )
  })

  it('what is like a promise is heard too', async () => {
    let heard = false
    const thenable = {
      // biome-ignore lint/suspicious/noThenProperty: as a query builder's
      then(_: unknown, reject: (error: Error) => void) {
        heard = true
        reject(new Error('no such table'))
      },
    }
    quiet('onAlert', () => thenable as never)()
    await sleep(1)
    expect(heard).toBe(true)
  })
})
