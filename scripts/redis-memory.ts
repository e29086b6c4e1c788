/**
 * What a buyer costs in Redis, on a real server of its own: `npx tsx scripts/redis-memory.ts [--buyers 100000]`. The last
 * line is JSON, in bytes of `used_memory` a buyer.
 */
import { parseArgs } from 'node:util'
import { type Activity, type Batch, StockBucket, TokenIssuer } from 'flash-sale-kit'
import type { Redis } from 'ioredis'
import { freshRedis } from '../test/harness/redis.js'

const activityId = 'memory'
const ref = { activityId, skuId: 's1' }
const WAVE = 2_000

const activity: Activity = {
  activityId,
  version: '1',
  opensAt: Date.now() - 60_000,
  endsAt: Date.now() + 3_600_000,
  payWithinMs: 900_000,
  mode: 'queued',
  tokens: 'off',
  maxPerOrder: 1,
  skus: [{ skuId: ref.skuId, units: 1_000_000, priceMinor: 990, currency: 'CNY' }],
  watermark: 1_000_000,
}

async function usedBytes(redis: Redis): Promise<number> {
  const info = await redis.info('memory')
  return Number(/^used_memory:(\d+)/m.exec(info)?.[1])
}

async function inWaves(count: number, one: (user: string) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < count; i += WAVE)
    await Promise.all(
      Array.from({ length: Math.min(WAVE, count - i) }, (_, j) => one(String(10 ** 9 + i + j))),
    )
}

const { values } = parseArgs({ options: { buyers: { type: 'string', default: '100000' } } })
const buyers = Number(values.buyers)
if (!Number.isInteger(buyers) || buyers < 1 || buyers > 1_000_000) {
  console.error('--buyers must be a whole number from 1 to 1000000')
  process.exit(2)
}

const { redis, destroy } = await freshRedis()
try {
  const sent: Batch[] = []
  const deliver = async (batch: Batch) => {
    sent.push(batch)
    return 'accepted' as const
  }
  const stock = new StockBucket({ redis, deliver })
  await stock.warmUp(activity, [{ ...ref, total: 1_000_000, available: 1_000_000, live: 0 }])
  await stock.control(activityId, 'open')
  const token = { tokenId: 'k'.repeat(19), issue: 1 } // as long as a signed token's id
  const empty = await usedBytes(redis)
  await inWaves(buyers, (userId) => stock.deduct({ ...ref, userId, version: '1', token }))
  await stock.stop()
  const reserved = await usedBytes(redis)
  for (const batch of sent) {
    await stock.move(batch.reservations.map((reservation) => ({ to: 'confirmed', reservation })))
    await stock.delivered(batch, 'settled')
  }
  const confirmed = await usedBytes(redis)
  for (const { reservations } of sent)
    await stock.move(
      reservations.map((reservation) => ({ to: 'released', reservation, reason: 'unpaid' })),
    )
  const released = await usedBytes(redis)
  const tokens = new TokenIssuer({ store: redis })
  const terms = { expiresAt: activity.endsAt, epoch: 1 }
  await inWaves(buyers, (userId) => tokens.issue({ activityId, userId }, terms))
  const stored = await usedBytes(redis)
  const each = (bytes: number) => Math.round(bytes / buyers)
  console.log(
    JSON.stringify({
      buyers,
      'owed to the queue': each(reserved - empty),
      'confirmed and settled': each(confirmed - empty),
      'released, with its tombstone': each(released - empty),
      'a stored token': each(stored - released),
    }),
  )
} finally {
  await destroy()
}
