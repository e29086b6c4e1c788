import type { Redis } from 'ioredis'
import { newOrderNo } from '../../src/core/order-no.js'
import type { Activity } from '../../src/core/types.js'
import { skuKeys } from '../../src/redis/keys.js'
import { deduct, SCRIPT_SET } from '../../src/redis/scripts.generated.js'
import {
  batchMessage,
  type Candidate,
  candidateArgs,
  newBatchId,
} from '../../src/stock/deduct-batch.js'
import { StockBucket } from '../../src/stock/stock-bucket.js'
import { freshRedis } from '../../test/harness/redis.js'
import { type Measured, median, rounded } from './measure.js'

/** Many short ones: what else the machine does then weighs on both sides of a round alike. */
const ROUNDS = 15
/** Callers that wait for an answer at any moment, on either side: one batch in flight and one that forms. */
const CALLERS = 512
const BATCHED = 30_000
const SINGLE = 6_000
export const REF = { activityId: 'bench', skuId: 's1' }

type Path = 'winners' | 'soldOut'
/** What one call costs: resolves with the word it was told. */
type Call = (userId: string) => Promise<string>

/**
 * Deductions of one SKU through StockBucket against one EVALSHA a request through the same ioredis client: the same
 * script and arguments, the same number of callers, by turns in one run. `winners` take a unit each and leave a mark,
 * numbers and a message; `soldOut` is what all others meet.
 */
export async function run(o: { readonly log: (line: string) => void }): Promise<Measured> {
  const { redis, destroy } = await freshRedis()
  const perSecond: Record<`${Path} ${'batched' | 'single'}`, number[]> = {
    'winners batched': [],
    'winners single': [],
    'soldOut batched': [],
    'soldOut single': [],
  }
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      for (const path of ['winners', 'soldOut'] as const) {
        const stock = await warm(redis, path)
        const batched = await rate(path, BATCHED, (userId) => viaBucket(stock, userId))
        await warm(redis, path)
        const single = await rate(path, SINGLE, (userId) => viaEvalsha(redis, userId))
        if (round === 0) continue // warms up
        o.log(`round ${round}, ${path}: ${rounded(batched)} batched, ${rounded(single)} single /s`)
        perSecond[`${path} batched`].push(batched)
        perSecond[`${path} single`].push(single)
      }
    }
  } finally {
    await destroy()
  }
  const of = (name: keyof typeof perSecond) => median(perSecond[name])
  /** Round by round, so that a slow minute of the machine cannot fall on one side only. */
  const ratio = (path: Path) =>
    median(
      perSecond[`${path} batched`].map((rate, i) => rate / (perSecond[`${path} single`][i] ?? 0)),
    )
  return {
    ratios: {
      winnersBatchedToSingle: rounded(ratio('winners')),
      soldOutBatchedToSingle: rounded(ratio('soldOut')),
    },
    medians: {
      winnersBatchedPerSecond: rounded(of('winners batched')),
      winnersSinglePerSecond: rounded(of('winners single')),
      soldOutBatchedPerSecond: rounded(of('soldOut batched')),
      soldOutSinglePerSecond: rounded(of('soldOut single')),
    },
  }
}

/** A sale of its own, open; for `soldOut` its one unit is gone. */
async function warm(redis: Redis, path: Path): Promise<StockBucket> {
  await redis.flushall()
  // On a machine whose cores are elsewhere for a while nobody is to hear `busy`: rate is measured here, not latency.
  const stock = new StockBucket({ redis, deliver: async () => 'unknown', maxWaitMs: 10_000 })
  const activity = activityOf(path === 'winners' ? 1_000_000 : 1)
  await stock.warmUp(activity, [
    { ...REF, total: activity.skus[0]?.units ?? 0, available: 0, live: 0 },
  ])
  await stock.control(REF.activityId, 'open')
  if (path === 'soldOut') await viaBucket(stock, 'first')
  return stock
}

/** Calls a second when `count` callers come, each for himself, `CALLERS` at a time. */
async function rate(path: Path, count: number, call: Call): Promise<number> {
  const wanted = path === 'winners' ? 'reserved' : 'sold-out'
  let next = 0
  const started = performance.now()
  const caller = async () => {
    while (next < count) {
      const told = await call(`u${next++}`)
      if (told !== wanted) throw new Error(`${path}: told ${told}`)
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, caller))
  return (count / (performance.now() - started)) * 1_000
}

async function viaBucket(stock: StockBucket, userId: string): Promise<string> {
  return (await stock.deduct({ ...REF, userId, version: 'v1' })).status
}

const KEYS = skuKeys(REF.activityId, REF.skuId)
const KEY_LIST = deduct.keys.map((name) => KEYS[name])

export async function viaEvalsha(redis: Redis, userId: string): Promise<string> {
  const candidates = [candidateOf(userId)]
  const batchId = newBatchId()
  const message = batchMessage(REF, 'v1', batchId, candidates)
  const { args } = candidateArgs(candidates, () => '')
  const fixed = ['v1', SCRIPT_SET, '0', '0', batchId, message, '2000', '1']
  const reply = await redis
    .evalsha(deduct.sha, KEY_LIST.length, ...KEY_LIST, ...fixed, ...args)
    .catch(() => redis.eval(deduct.lua, KEY_LIST.length, ...KEY_LIST, ...fixed, ...args))
  const code = (reply as unknown[])[3]
  return code === '1' ? 'reserved' : code === '0' ? 'sold-out' : String(code)
}

function candidateOf(userId: string): Candidate {
  const reservation = {
    orderNo: newOrderNo(),
    ...REF,
    userId,
    quantity: 1,
    bucket: 0,
    version: 'v1',
    reservedAt: Date.now(),
  }
  return { reservation, payload: undefined, token: undefined, ownNumber: false }
}

export function activityOf(units: number): Activity {
  const now = Date.now()
  return {
    activityId: REF.activityId,
    version: 'v1',
    opensAt: now - 60_000,
    endsAt: now + 3_600_000,
    payWithinMs: 900_000,
    mode: 'queued',
    tokens: 'off',
    maxPerOrder: 5,
    skus: [{ skuId: REF.skuId, units, priceMinor: 9900, currency: 'CNY' }],
    watermark: 1_000_000,
  }
}
