import type { Redis } from 'ioredis'
import { expect } from 'vitest'
import type {
  Activity,
  ActivitySku,
  Batch,
  Delivered,
  Reservation,
} from '../../../src/core/types.js'
import { ScriptRunner } from '../../../src/redis/run-script.js'
import { deduct } from '../../../src/redis/scripts.generated.js'
import type { DeductRequest } from '../../../src/stock/candidate.js'
import {
  batchMessage,
  type Candidate,
  candidateArgs,
  type DeductAnswer,
  readReply,
} from '../../../src/stock/deduct-batch.js'
import type { StockBucketOptions } from '../../../src/stock/options.js'
import { StockBucket } from '../../../src/stock/stock-bucket.js'

export const REF = { activityId: 'a1', skuId: 's1' } as const
export const HOUR = 3_600_000
export const PAY_WITHIN = 900_000

/** Spelled out, not taken from the code: hosts and dashboards read these keys. */
export const KEYS = {
  sale: 'seckill:sale:{a1}',
  released: 'seckill:released:{a1}',
  owed: 'seckill:owed:{a1}',
  batch: 'seckill:batch:{a1}',
} as const
export const stockKey = (skuId: string) => `seckill:stock:{a1}:${skuId}`
export const doneKey = (skuId: string) => `seckill:done:{a1}:${skuId}`

export function sku(units: number, skuId = 's1'): ActivitySku {
  return { skuId, units, priceMinor: 9900, currency: 'CNY' }
}

export function activityOf(o: Partial<Activity> = {}): Activity {
  const now = Date.now()
  return {
    activityId: 'a1',
    version: 'v1',
    opensAt: now - 60_000,
    endsAt: now + HOUR,
    payWithinMs: PAY_WITHIN,
    mode: 'queued',
    tokens: 'off',
    maxPerOrder: 5,
    skus: [sku(10)],
    ...o,
  }
}

export const numbersOf = (activity: Activity, live = 0) =>
  activity.skus.map(({ skuId, units }) => ({
    activityId: activity.activityId,
    skuId,
    total: units,
    available: units - live,
    live,
  }))

export function reservationOf(o: Partial<Reservation> = {}): Reservation {
  return {
    ...REF,
    orderNo: 'o1',
    userId: 'u1',
    quantity: 1,
    bucket: 0,
    version: 'v1',
    reservedAt: 1_790_000_000_000,
    ...o,
  }
}

/** One Redis with one sale in it, and the books that must balance after every step. */
export class World {
  readonly batches: Batch[] = []
  activity: Activity = activityOf()
  readonly #buckets: StockBucket[] = []

  constructor(
    readonly redis: Redis,
    readonly engine: 'mock' | 'real',
  ) {}

  bucket(o: Partial<StockBucketOptions> = {}): StockBucket {
    const deliver = async (batch: Batch): Promise<Delivered> => {
      this.batches.push(batch)
      return 'unknown'
    }
    const bucket = new StockBucket({
      redis: this.redis,
      deliver,
      timeoutMs: 5_000,
      maxWaitMs: 10_000,
      ...o,
    })
    this.#buckets.push(bucket)
    return bucket
  }

  /** Warmed and open. */
  async sale(o: Partial<Activity> = {}, p: Partial<StockBucketOptions> = {}): Promise<StockBucket> {
    this.activity = activityOf(o)
    const stock = this.bucket(p)
    expect(await stock.warmUp(this.activity, numbersOf(this.activity))).toEqual({
      status: 'warmed',
    })
    await stock.control('a1', 'open')
    await this.sound()
    return stock
  }

  request(userId: string, o: Partial<DeductRequest> = {}): DeductRequest {
    return { ...REF, userId, version: this.activity.version, ...o }
  }

  async close(): Promise<void> {
    for (const bucket of this.#buckets) await bucket.stop({ drainMs: 1_000 })
  }

  /** Every key and what it holds, for "nothing was written". */
  async contents(): Promise<Record<string, unknown>> {
    const all: Record<string, unknown> = {}
    for (const key of (await this.redis.keys('*')).sort()) {
      const type = await this.redis.type(key)
      if (type === 'hash') all[key] = await this.redis.hgetall(key)
      else if (type === 'zset') all[key] = await this.redis.zrange(key, 0, -1, 'WITHSCORES')
      else all[key] = await this.redis.get(key)
    }
    return all
  }

  /** Puts Redis back to what {@link contents} was, as a failover does. */
  async restore(contents: Readonly<Record<string, unknown>>): Promise<void> {
    await this.redis.flushall()
    const until = this.activity.endsAt + this.activity.payWithinMs + 2 * HOUR
    for (const [key, value] of Object.entries(contents)) {
      if (Array.isArray(value))
        for (let i = 0; i < value.length; i += 2)
          await this.redis.zadd(key, value[i + 1] as string, value[i] as string)
      else await this.redis.hset(key, value as Record<string, string>)
      await this.redis.pexpireat(key, until)
    }
  }

  /** Runs `act` and fails if anything in Redis is other than before. */
  async unchanged<T>(act: () => Promise<T>): Promise<T> {
    const before = await this.contents()
    try {
      return await act()
    } finally {
      expect(await this.contents()).toEqual(before)
    }
  }

  /**
   * The invariants, from the raw keys: each SKU's books balance, S is S, the sums equal those over the ledger, no two
   * units of a buyer, one epoch and one expiry for all keys, whole numbers only, and whatever is held has its message.
   */
  async sound(
    o: { units?: Readonly<Record<string, number>>; watched?: boolean } = {},
  ): Promise<void> {
    const { redis } = this
    const sale = await redis.hgetall(KEYS.sale)
    const epoch = sale[' '] as string
    expect(epoch).toMatch(/^\d{13}$/)
    const keys: string[] = Object.values(KEYS)
    let waiting = 0
    for (const { skuId, units } of this.activity.skus) {
      const stock = await redis.hgetall(stockKey(skuId))
      const done = await redis.hgetall(doneKey(skuId))
      keys.push(stockKey(skuId), doneKey(skuId))
      const n = Object.fromEntries(
        ['total', 'available', 'frozen', 'sold', 'pending', 'over'].map((name) => {
          expect(stock[name], `${skuId} ${name}`).toMatch(/^\d{1,15}$/)
          return [name, Number(stock[name])]
        }),
      ) as Record<'total' | 'available' | 'frozen' | 'sold' | 'pending' | 'over', number>
      expect(n.available + n.frozen + n.sold, 'total').toBe(n.total)
      expect(n.total - n.over, 'S').toBe(o.units?.[skuId] ?? units)
      const ledger = ledgerOf(done)
      expect(n.pending, 'pending').toBe(ledger.units.h)
      expect(n.frozen, 'frozen').toBe(ledger.units.h + ledger.units.c)
      expect(n.sold, 'sold').toBe(ledger.units.p)
      waiting += ledger.orders.h
      if (o.watched ?? true) {
        const messages = Object.values(await redis.hgetall(KEYS.batch)).join('\n')
        for (const no of ledger.held) expect(messages, 'is owed').toContain(`"orderNo":"${no}"`)
      }
      expect(JSON.stringify([stock, done, sale])).not.toMatch(/\de\+/)
      expect([stock[' '], done[' ']]).toEqual([epoch, epoch])
    }
    expect(Number(sale['waiting'])).toBe(waiting)
    expect(await redis.hget(KEYS.released, ' ')).toBe(epoch)
    expect(await redis.hget(KEYS.batch, ' ')).toBe(epoch)
    expect(await redis.zscore(KEYS.owed, ` ${epoch}`)).not.toBeNull()
    await this.#oneExpiry(keys)
  }

  async #oneExpiry(keys: readonly string[]): Promise<void> {
    const until = this.activity.endsAt + this.activity.payWithinMs + 2 * HOUR
    for (const key of keys) {
      // Neither Redis 6 nor the mock knows it.
      const ends = await this.redis.pexpiretime?.(key).catch(() => null)
      if (typeof ends === 'number') expect(ends, key).toBe(until)
      else {
        const left = await this.redis.pttl(key)
        expect(Math.abs(left - (until - Date.now())), key).toBeLessThan(2_000)
      }
    }
  }

  /** Runs the deduct script once with these candidates, as a batch of them would. */
  async script(
    candidates: readonly Candidate[],
    o: Partial<Record<(typeof deduct.args)[number], string | number>> = {},
  ): Promise<readonly DeductAnswer[]> {
    const sale = await this.redis.hgetall(KEYS.sale)
    const keys = { ...KEYS, stock: stockKey('s1'), done: doneKey('s1') }
    const batchId = String(o.batchId ?? `b${++batches}`)
    const more = candidateArgs(candidates, (id) => `seckill:token:{a1}:${id}`)
    const args = {
      version: this.activity.version,
      scripts: sale['scripts'] ?? '',
      seenEpoch: 0,
      seenSeq: 0,
      batchId,
      message: batchMessage(REF, 'v1', batchId, candidates),
      owedAfterMs: 2_000,
      count: candidates.length,
      ...o,
    }
    const runner = new ScriptRunner(this.redis, 5_000)
    const read = readReply(await runner.run(deduct, keys, args, more), candidates)
    return 'status' in read ? candidates.map(() => read) : read.answers
  }
}

let batches = 0

export function candidateOf(o: Partial<Reservation> = {}, c: Partial<Candidate> = {}): Candidate {
  const reservation = reservationOf(o)
  return { reservation, payload: undefined, token: undefined, ownNumber: true, ...c }
}

function ledgerOf(done: Readonly<Record<string, string>>) {
  const units = { h: 0, c: 0, p: 0, r: 0 }
  const orders = { h: 0, c: 0, p: 0, r: 0 }
  const held: string[] = []
  const numbers = new Set<string>()
  for (const [field, record] of Object.entries(done)) {
    if (field === ' ') continue
    const [, state, orderNo, quantity] = /^([hcpr])\|([^|]+)\|(\d+)\|\d+\|[^|]*$/.exec(record) ?? []
    if (!state || !orderNo) throw new Error(`no record: ${field} ${record}`)
    expect(numbers, 'a number has one record').not.toContain(orderNo)
    numbers.add(orderNo)
    units[state as 'h'] += Number(quantity)
    orders[state as 'h'] += 1
    if (state === 'h') held.push(orderNo)
  }
  return { units, orders, held }
}
