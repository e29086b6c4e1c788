import { type Activity, FlashSale, newOrderNo } from 'flash-sale-kit'
import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from 'flash-sale-kit/knex'
import { RocketmqQueue } from 'flash-sale-kit/rocketmq'
import type { Knex } from 'knex'
import { Producer } from 'rocketmq-client-nodejs'
import { messageText } from '../../src/core/message.js'
import { freshDatabase } from '../../test/harness/databases.js'
import { freshRedis } from '../../test/harness/redis.js'
import { startMariadb, startRocketmq } from '../../test/harness/services.js'
import { type Measured, median, rounded } from './measure.js'

const ROUNDS = 5
const WINNERS = 20_000
/** Callers that wait for an answer at any moment. */
const CALLERS = 512
/** Enough that a round takes some seconds. */
const SINGLES = 4_000
/** Sends under way at any moment. Of 1, 32, 128 and 256 the fastest here. */
const SENDERS = 128
const TOPIC = 'bench'
/** Read by nobody. */
const SINGLE_TOPIC = 'bench-singles'
const GROUP = 'bench-workers'
const SKU = 's1'
const AUDIT = { actor: 'bench', reason: 'measure' }

/**
 * A burst of winners from the first click to the last confirmed row, over RocketMQ in batches, against what the same
 * client sends a second when each order is a message of its own: by turns, to the same broker. MariaDB with
 * flushed commits, Redis, the broker and the one process of the sale share the cores.
 */
export async function run(o: { readonly log: (line: string) => void }): Promise<Measured> {
  const [{ redis, destroy }, server, broker] = await Promise.all([
    freshRedis(),
    startMariadb({ flush: 1 }),
    startRocketmq(),
  ])
  const db = await freshDatabase('mariadb', { server })
  for (const topic of [TOPIC, SINGLE_TOPIC]) await broker.createTopic(topic, { type: 'FIFO' })
  await broker.createGroup(GROUP)
  await KnexOrderBook.migrate(db.knex)
  const { endpoints } = broker
  const activities = new KnexActivityStore({ knex: db.knex })
  const sale = new FlashSale({
    redis,
    queue: new RocketmqQueue({ endpoints, topic: TOPIC, group: GROUP }),
    orders: new KnexOrderBook({ knex: db.knex }),
    activities,
    control: new KnexActivityControl({ knex: db.knex }),
    // Where the cores are elsewhere for a while nobody is to hear `busy`: the rate is measured here.
    stock: { maxWaitMs: 10_000 },
    events: { onAlert: (code, detail) => o.log(`${code} ${JSON.stringify(detail)}`) },
  })
  sale.worker({ ordersPerSecond: 100_000 })
  sale.relay()
  await sale.start()
  const single = await singleSender(endpoints)
  const confirmed: number[] = []
  const sent: number[] = []
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      const activity = activityOf(`round${round}`)
      await activities.save(activity)
      await sale.warmUp(activity.activityId, AUDIT)
      await sale.control(activity.activityId, 'open', AUDIT)
      const [batches, singles] = [await burst(sale, db.knex, activity), await single.rate()]
      await sale.control(activity.activityId, 'stopped', AUDIT)
      if (round === 0) continue // warms up
      o.log(`round ${round}: ${rounded(batches)} orders/s confirmed, ${rounded(singles)} sends/s`)
      confirmed.push(batches)
      sent.push(singles)
    }
  } finally {
    await Promise.all([sale.stop(), single.close()])
    await Promise.all([destroy(), db.destroy()])
    await Promise.all([server.stop(), broker.stop()])
  }
  return {
    ratios: {
      /** At least 10. Each round is compared with itself: both sides had the same weather. */
      confirmedOrdersToSingleSends: rounded(
        median(confirmed.map((rate, i) => rate / (sent[i] ?? 0))),
      ),
    },
    medians: {
      confirmedOrdersPerSecond: rounded(median(confirmed)),
      singleSendsPerSecond: rounded(median(sent)),
    },
  }
}

/** Orders a second, from the first click until the last of them is a row. */
async function burst(sale: FlashSale, knex: Knex, { activityId }: Activity): Promise<number> {
  const begun = performance.now()
  await inParallel(CALLERS, WINNERS, async (i) => {
    const buyer = { userId: `u${i}`, ip: '127.0.0.1' }
    const { status } = await sale.submit({ activityId, skuId: SKU, buyer })
    if (status !== 'queued') throw new Error(`a winner was told ${status}`)
  })
  while (await isUnsold(knex, activityId)) await new Promise((resolve) => setTimeout(resolve, 5))
  return perSecond(WINNERS, begun)
}

/** The unit of an order leaves this row in the commit that writes the order. */
async function isUnsold(knex: Knex, activityId: string): Promise<boolean> {
  const [row] = await knex('seckill_stock').where({ activity_id: activityId }).select('available')
  return Number(row.available) > 0
}

/** The client as it is, one order a message. */
async function singleSender(endpoints: string) {
  const logger = { debug() {}, info() {}, warn() {}, error() {}, close() {} }
  const producer = new Producer({ endpoints, namespace: '', logger, maxAttempts: 1 })
  await producer.startup()
  return {
    async rate(): Promise<number> {
      const bodies = Array.from({ length: SINGLES }, () => Buffer.from(messageOfOne()))
      const begun = performance.now()
      await inParallel(SENDERS, SINGLES, async (i) => {
        const body = bodies[i] as Buffer
        await producer.send({
          topic: SINGLE_TOPIC,
          messageGroup: 'bench s1',
          keys: [`k${i}`],
          body,
        })
      })
      return perSecond(SINGLES, begun)
    },
    close: () => producer.shutdown(),
  }
}

function messageOfOne(): string {
  const ref = { activityId: 'bench', skuId: SKU }
  const buyer = { userId: `u${Math.random()}`, quantity: 1, bucket: 0, version: 'v1' }
  const reservation = { orderNo: newOrderNo(), ...ref, ...buyer, reservedAt: Date.now() }
  return (
    messageText({ schema: 1, batchId: newOrderNo(), ...ref, reservations: [reservation] }) ?? ''
  )
}

/** Works through 0 to `count - 1`, `atOnce` at any moment. */
async function inParallel(
  atOnce: number,
  count: number,
  work: (i: number) => Promise<void>,
): Promise<void> {
  let next = 0
  const worker = async () => {
    while (next < count) await work(next++)
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
}

const perSecond = (count: number, begun: number) => (count / (performance.now() - begun)) * 1_000

function activityOf(activityId: string): Activity {
  return {
    activityId,
    version: 'v1',
    opensAt: Date.now() - 60_000,
    endsAt: Date.now() + 3_600_000,
    payWithinMs: 900_000,
    mode: 'queued',
    tokens: 'off',
    maxPerOrder: 1,
    skus: [{ skuId: SKU, units: WINNERS, priceMinor: 9900, currency: 'CNY' }],
    watermark: WINNERS,
  }
}
