import { randomBytes } from 'node:crypto'
import {
  type Activity,
  type ActivityControl,
  BackpressureGate,
  FlashSale,
  type OrderBook,
  queueLag,
  RateLimiter,
  type SubmitRequest,
  TokenIssuer,
} from 'flash-sale-kit'
import { RedisStreamQueue } from 'flash-sale-kit/redis-streams'
import { until } from '../../test/harness/net.js'
import { freshRedis } from '../../test/harness/redis.js'
import { activityOf, REF } from '../bench/admission.js'
import { clickOf, issuer } from './crowd.js'
import { drive } from './drive.js'
import type { Exactness, Level, LevelOptions, Step } from './step.js'

/** Nothing on the way of a click needs the database, unless the queue refuses a message. */
const NO_DATABASE = new Proxy({} as OrderBook, {
  get: (_, name) => () => Promise.reject(new Error(`no database for ${String(name)}`)),
})

/** The chain without a database, in this process: gates, mark, limiter, token, deduction, queue. Every second may win. */
export async function l2(o: LevelOptions): Promise<Level> {
  const steps: Step[] = []
  for (const callers of o.steps) {
    steps.push(await once(o, callers))
    o.log(`${callers} callers: ${steps.at(-1)?.perSecond}/s`)
  }
  return { steps }
}

async function once({ requests, log }: LevelOptions, callers: number): Promise<Step> {
  const { redis, destroy } = await freshRedis()
  const units = Math.ceil(requests / 2)
  const activity: Activity = { ...activityOf(units), tokens: 'required', maxPerOrder: 1 }
  const tokens = new TokenIssuer({ keys: [{ kid: 'k1', secret: randomBytes(32) }] })
  const queue = new RedisStreamQueue({ redis })
  const sale = new FlashSale({
    redis,
    queue,
    tokens,
    orders: NO_DATABASE,
    activities: { load: async () => activity, live: async () => [] },
    control: {
      read: async () => ({ state: 'open', tokenEpoch: 1, revision: 1 }),
    } as unknown as ActivityControl,
    limiter: new RateLimiter({ redis, resources: { submit: RULES } }),
    backpressure: new BackpressureGate({ probes: [queueLag(queue)] }),
    // The wait is measured, also a long one.
    stock: { maxWaitMs: 60_000, timeoutMs: 60_000, maxWaiting: 1_000_000 },
  })
  try {
    await sale.stock.warmUp(activity, [{ ...REF, total: units, available: units, live: 0 }])
    await sale.stock.control(REF.activityId, 'open')
    await sale.start()
    const carried = new Map<string, string>()
    queue.consume(
      async ({ batches }) => {
        for (const { reservations } of batches)
          for (const { orderNo, userId } of reservations) carried.set(orderNo, userId)
        return 'ack'
      },
      { maxBatches: 64 },
    )

    const clicks: SubmitRequest[] = []
    const issue = issuer(tokens, REF.activityId, activity.endsAt)
    for (let i = 0; i < requests; i++) clicks.push(await clickOf(i, REF, issue))
    const told = new Map<string, string>()
    const click = async (i: number) => {
      const request = clicks[i] as SubmitRequest
      const answer = await sale.submit(request)
      if (answer.status === 'queued') told.set(answer.orderNo, String(request.buyer.userId))
    }
    const what = `${callers} callers`
    const { perSecond, latencyMs } = await drive({ requests, callers, what, log, click })
    await until('the queue is empty', async () => {
      const lag = await queue.lag()
      return lag !== 'unknown' && lag.messages === 0
    })
    const { available, frozen } = await sale.stock.numbers(REF)
    const exactness: Exactness = {
      oversold: Math.max(0, carried.size - units),
      lost: [...told].filter(([orderNo, userId]) => carried.get(orderNo) !== userId).length,
      difference: Math.abs(units - available - frozen) + Math.abs(frozen - carried.size),
    }
    return { callers, perSecond, latencyMs, layers: sale.refusals(), exactness }
  } finally {
    await sale.stop()
    await destroy()
  }
}

/** So wide that only the robot meets it. */
const RULES = {
  total: { burst: 1_000_000, perSecond: 1_000_000 },
  ip: { burst: 20, perSecond: 10 },
  user: { burst: 5, perSecond: 1 },
}
