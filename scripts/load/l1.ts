import type { Redis } from 'ioredis'
import { RefusalCounters } from '../../src/gate/refusal-counters.js'
import { StockBucket } from '../../src/stock/stock-bucket.js'
import { freshRedis } from '../../test/harness/redis.js'
import { activityOf, REF, viaEvalsha } from '../bench/admission.js'
import { median, rounded } from '../bench/measure.js'
import { drive } from './drive.js'
import type { Exactness, Level, LevelOptions, Step } from './step.js'

const ROUNDS = 3
const SKUS = ['s1', 's2', 's3', 's4'] as const

/** One key with a script a request, one key with the library's batches, and the same batches over four keys. */
const WAYS = {
  single: { skus: 1, batched: false },
  batched: { skus: 1, batched: true },
  fourSkus: { skus: 4, batched: true },
} as const
type Way = keyof typeof WAYS

/** The deduct script alone, the limit of one key: every second request finds a unit. */
export async function l1(o: LevelOptions): Promise<Level> {
  const { redis, destroy } = await freshRedis()
  const steps: Step[] = []
  const ratios: Record<string, number> = {}
  try {
    await once(redis, o, 'batched', o.steps[0] as number) // warms up
    for (const callers of o.steps) {
      const rounds: Record<Way, Step>[] = []
      for (let round = 1; round <= ROUNDS; round++) {
        const single = await once(redis, o, 'single', callers)
        const batched = await once(redis, o, 'batched', callers)
        const fourSkus = await once(redis, o, 'fourSkus', callers)
        o.log(
          `${callers} callers, round ${round}: ${single.perSecond}, ${batched.perSecond}, ${fourSkus.perSecond}/s`,
        )
        rounds.push({ single, batched, fourSkus })
      }
      for (const way of Object.keys(WAYS) as Way[]) steps.push(middle(rounds.map((r) => r[way])))
      const ratio = (of: Way, to: Way) =>
        rounded(median(rounds.map((r) => r[of].perSecond / r[to].perSecond)))
      ratios[`batchedToSingleAt${callers}`] = ratio('batched', 'single')
      ratios[`fourSkusToOneAt${callers}`] = ratio('fourSkus', 'batched')
    }
    return { steps, ratios }
  } finally {
    await destroy()
  }
}

async function once(redis: Redis, o: LevelOptions, way: Way, callers: number): Promise<Step> {
  const { skus, batched } = WAYS[way]
  const { log, requests } = o
  await redis.flushall()
  // Where the cores are elsewhere for a while nobody is to hear `busy`: the wait is measured, also a long one.
  const room = { maxWaitMs: 60_000, timeoutMs: 60_000, maxWaiting: 1_000_000 }
  const stock = new StockBucket({ redis, deliver: async () => 'unknown', ...room })
  const units = Math.ceil(requests / 2 / skus)
  const refs = SKUS.slice(0, skus).map((skuId) => ({ ...REF, skuId }))
  const one = activityOf(units)
  const sold = refs.map(({ skuId }) => ({ ...one.skus[0], skuId }) as (typeof one.skus)[0])
  const rows = refs.map((ref) => ({ ...ref, total: units, available: units, live: 0 }))
  await stock.warmUp({ ...one, skus: sold }, rows)
  await stock.control(REF.activityId, 'open')

  const counters = new RefusalCounters()
  let told = 0
  const click = async (i: number) => {
    const ref = refs[i % skus] as (typeof refs)[0]
    const userId = `u${i}`
    const status = batched
      ? (await stock.deduct({ ...ref, userId, version: 'v1' })).status
      : await viaEvalsha(redis, userId)
    if (status !== 'reserved') return counters.refused('stock', status)
    told++
    counters.passed('stock')
  }
  const what = `${callers} callers, ${way}`
  const { perSecond, latencyMs } = await drive({ requests, callers, what, log, click })
  const numbers = await Promise.all(refs.map((ref) => stock.numbers(ref)))
  const sum = (of: (n: (typeof numbers)[0]) => number) => numbers.reduce((s, n) => s + of(n), 0)
  const exactness: Exactness = {
    oversold: Math.max(0, told - units * skus),
    lost: Math.max(0, told - sum((n) => n.frozen)),
    difference: Math.abs(units * skus - sum((n) => n.available + n.frozen)),
  }
  await stock.stop()
  return { callers, way, perSecond, latencyMs, layers: counters.snapshot(), exactness }
}

/** The round of the median rate, but no unit that was wrong in any of them is passed over. */
function middle(rounds: readonly Step[]): Step {
  const sorted = [...rounds].sort((a, b) => a.perSecond - b.perSecond)
  const worst = (of: keyof Exactness) => Math.max(...rounds.map((r) => r.exactness[of]))
  const exactness = {
    oversold: worst('oversold'),
    lost: worst('lost'),
    difference: worst('difference'),
  }
  return { ...(sorted[sorted.length >> 1] as Step), exactness }
}
