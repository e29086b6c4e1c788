import { type Activity, type FlashSale, newOrderNo } from 'flash-sale-kit'
import type { Knex } from 'knex'
import { Producer } from 'rocketmq-client-nodejs'
import { messageText } from '../../src/core/message.js'
import { type Measured, median, rounded } from './measure.js'
import { SINGLE_TOPIC, setUp } from './rocketmq-stage.js'

const ROUNDS = 5
const WINNERS = 20_000
/** Callers that wait for an answer at any moment. */
const CALLERS = 512
/** Messages of one order: one after the other, and as many at once as make it no faster to have more (16 to 256 tried). */
const SINGLES = { oneByOne: { count: 400, atOnce: 1 }, manyAtOnce: { count: 4_000, atOnce: 32 } }
const SKU = 's1'
const AUDIT = { actor: 'bench', reason: 'measure' }

const NAMES = ['queued', 'confirmed', 'oneByOne', 'manyAtOnce'] as const
type Name = (typeof NAMES)[number]
type Rates = Readonly<Record<Name, number>>

/**
 * A burst of winners from the first click to the last confirmed row, over RocketMQ in batches, against what the same
 * client only sends a second when each order is a message of its own: by turns, to the same broker. All servers share the
 * cores with the two processes of the sale.
 */
export async function run(o: { readonly log: (line: string) => void }): Promise<Measured> {
  const { sale, activities, knex, endpoints, tearDown } = await setUp()
  const single = await singleSender(endpoints)
  const seen: Rates[] = []
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      const activity = activityOf(`round${round}`)
      await activities.save(activity)
      await sale.warmUp(activity.activityId, AUDIT)
      await sale.control(activity.activityId, 'open', AUDIT)
      const rates = {
        ...(await burst(sale, knex, activity)),
        oneByOne: await single.rate(SINGLES.oneByOne),
        manyAtOnce: await single.rate(SINGLES.manyAtOnce),
      }
      await sale.control(activity.activityId, 'stopped', AUDIT)
      o.log(`${round === 0 ? 'warming up' : `round ${round}`}: ${inWords(rates)}`)
      if (round > 0) seen.push(rates)
    }
  } finally {
    await single.close()
    await tearDown()
  }
  const of = (name: Name) => rounded(median(seen.map((rates) => rates[name])))
  /** Each round is compared with itself: both sides had the same weather. */
  const ratio = (a: Name, b: Name) => rounded(median(seen.map((rates) => rates[a] / rates[b])))
  return {
    ratios: {
      /** At least 10. */
      confirmedToOneByOne: ratio('confirmed', 'oneByOne'),
      confirmedToManyAtOnce: ratio('confirmed', 'manyAtOnce'),
      queuedToManyAtOnce: ratio('queued', 'manyAtOnce'),
    },
    medians: {
      confirmedOrdersPerSecond: of('confirmed'),
      queuedOrdersPerSecond: of('queued'),
      singleSendsPerSecondOneByOne: of('oneByOne'),
      singleSendsPerSecondManyAtOnce: of('manyAtOnce'),
    },
  }
}

function inWords({ queued, confirmed, oneByOne, manyAtOnce }: Rates): string {
  const orders = `${rounded(queued)} orders/s queued, ${rounded(confirmed)} confirmed`
  return `${orders}; ${rounded(oneByOne)} sends/s one by one, ${rounded(manyAtOnce)} many at once`
}

/** Orders a second, from the first click until the last buyer is told that he is queued, and until the last row. */
async function burst(sale: FlashSale, knex: Knex, { activityId }: Activity) {
  const begun = performance.now()
  await inParallel(CALLERS, WINNERS, async (i) => {
    const buyer = { userId: `u${i}`, ip: '127.0.0.1' }
    const { status } = await sale.submit({ activityId, skuId: SKU, buyer })
    if (status !== 'queued') throw new Error(`a winner was told ${status}`)
  })
  const queued = perSecond(WINNERS, begun)
  while (await isUnsold(knex, activityId)) await new Promise((resolve) => setTimeout(resolve, 5))
  return { queued, confirmed: perSecond(WINNERS, begun) }
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
    async rate(o: { readonly count: number; readonly atOnce: number }): Promise<number> {
      const bodies = Array.from({ length: o.count }, () => Buffer.from(messageOfOne()))
      const begun = performance.now()
      await inParallel(o.atOnce, o.count, async (i) => {
        const body = bodies[i] as Buffer
        await producer.send({
          topic: SINGLE_TOPIC,
          messageGroup: 'bench s1',
          keys: [`k${i}`],
          body,
        })
      })
      return perSecond(o.count, begun)
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
