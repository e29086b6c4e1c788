import type { Redis } from 'ioredis'
import { StockBucket } from '../../src/stock/stock-bucket.js'
import { freshRedis } from '../../test/harness/redis.js'
import { activityOf, REF, viaEvalsha } from './admission.js'
import { type Measured, median, rounded } from './measure.js'

const ROUNDS = 5
const SECONDS = 1
/** Arrivals a second: what one EVALSHA a request can about bear here, and more than twice that. */
const RATES = [12_500, 30_000] as const

/**
 * How long a click waits for its answer when clicks come at their own pace, whether or not the earlier ones were answered
 * (open loop): batched by StockBucket against one EVALSHA a request, by turns in one run.
 */
export async function run(o: { readonly log: (line: string) => void }): Promise<Measured> {
  const { redis, destroy } = await freshRedis()
  const seen = new Map<string, number[]>()
  const note = (name: string, value: number) => seen.set(name, [...(seen.get(name) ?? []), value])
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      for (const perSecond of RATES) {
        const stock = await warm(redis)
        const batched = await clicks(perSecond, async (userId) => {
          await stock.deduct({ ...REF, userId, version: 'v1' })
        })
        await warm(redis)
        const single = await clicks(perSecond, async (userId) => {
          await viaEvalsha(redis, userId)
        })
        if (round === 0) continue // warms up
        o.log(
          `round ${round}, ${perSecond}/s: p99 ${rounded(batched.p99)} ms batched, ${rounded(single.p99)} ms single`,
        )
        for (const [side, { p50, p99 }] of Object.entries({ batched, single })) {
          note(`${side}P50MsAt${perSecond}`, p50)
          note(`${side}P99MsAt${perSecond}`, p99)
        }
      }
    }
  } finally {
    await destroy()
  }
  const medians = Object.fromEntries(
    [...seen].map(([name, values]) => [name, rounded(median(values))]),
  )
  const ratios = Object.fromEntries(
    RATES.map((at) => {
      const [single, batched] = [medians[`singleP99MsAt${at}`], medians[`batchedP99MsAt${at}`]]
      return [`singleToBatchedP99At${at}`, rounded((single as number) / (batched as number))]
    }),
  )
  return { ratios, medians }
}

async function warm(redis: Redis): Promise<StockBucket> {
  await redis.flushall()
  // Nobody is turned away: the wait itself is measured, also a long one.
  const limits = { maxWaiting: 1_000_000, maxWaitMs: 60_000, timeoutMs: 60_000 }
  const stock = new StockBucket({ redis, deliver: async () => 'unknown', ...limits })
  const units = 1_000_000
  await stock.warmUp(activityOf(units), [{ ...REF, total: units, available: units, live: 0 }])
  await stock.control(REF.activityId, 'open')
  return stock
}

/** Sends what is due each turn of the event loop; a wait counts from when the click was due, not from when it was sent. */
async function clicks(
  perSecond: number,
  call: (userId: string) => Promise<void>,
): Promise<{ readonly p50: number; readonly p99: number }> {
  const count = perSecond * SECONDS
  const waits: number[] = []
  const calls: Promise<void>[] = []
  const started = performance.now()
  while (calls.length < count) {
    const due = Math.min(count, ((performance.now() - started) / 1_000) * perSecond)
    while (calls.length < due) {
      const at = started + (calls.length / perSecond) * 1_000
      const click = call(`u${calls.length}`).then(() => void waits.push(performance.now() - at))
      calls.push(click)
    }
    await new Promise((resolve) => setImmediate(resolve))
  }
  await Promise.all(calls)
  waits.sort((a, b) => a - b)
  const at = (share: number) => waits[Math.floor(share * waits.length)] as number
  return { p50: at(0.5), p99: at(0.99) }
}
