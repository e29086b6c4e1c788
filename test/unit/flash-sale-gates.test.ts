import { describe, expect, it, vi } from 'vitest'
import { BackpressureGate } from '../../src/gate/backpressure-gate.js'
import { RateLimiter } from '../../src/gate/rate-limiter.js'
import { FlashSale } from '../../src/pipeline/flash-sale.js'
import type { FlashSaleOptions } from '../../src/pipeline/options.js'
import { MemoryQueue } from '../../src/queue/memory-queue.js'
import { mockRedis } from '../harness/redis.js'
import { activityOf, sku } from '../suites/stock-bucket/world.js'

const AUDIT = { actor: 'test', reason: 'test' }

async function shop(o: Partial<FlashSaleOptions> = {}) {
  const activity = activityOf({ skus: [sku(2)] })
  let control = { state: 'stopped' as 'open' | 'stopped', tokenEpoch: 1, revision: 0 }
  const redis = mockRedis()
  const sale = new FlashSale({
    redis,
    queue: new MemoryQueue(),
    orders: {
      prepare: async () => [{ activityId: 'a1', skuId: 's1', total: 2, available: 2, live: 0 }],
      closeUnbooked: async () => [],
    } as never,
    activities: { load: async () => activity, live: async () => [] },
    control: {
      read: async () => control,
      set: async (_id, state) => {
        control = { ...control, state, revision: control.revision + 1 }
        return control.revision
      },
      revokeTokens: async () => 1,
      readConsumers: async () => 'running',
      setConsumers: async () => {},
      setIf: async () => null,
      lastAct: async () => null,
    },
    ...o,
  })
  await sale.warmUp('a1', AUDIT)
  await sale.control('a1', 'open', AUDIT)
  const submit = (userId: string, ip = '203.0.113.9') =>
    sale.submit({ activityId: 'a1', skuId: 's1', buyer: { userId, ip } })
  return { sale, submit, redis }
}

describe('FlashSale with its gates', () => {
  it('F5 F6 sells out, refuses from memory, and shows which layer refused', async () => {
    const { sale, submit, redis } = await shop({ soldOutMs: 10_000 })
    for (const user of ['u1', 'u2']) expect((await submit(user)).status).toBe('queued')
    // The first is told by Redis; the second sets off the reading of who has won, and is asked for meanwhile.
    for (let i = 0; i < 2; i++) expect(await submit(`v${i}`)).toEqual({ status: 'sold-out' })
    await new Promise((resolve) => setTimeout(resolve, 50))
    const calls = vi.spyOn(redis, 'evalsha')
    for (let i = 2; i < 6; i++) expect(await submit(`v${i}`)).toEqual({ status: 'sold-out' })
    expect(calls).not.toHaveBeenCalled()
    expect(sale.refusals()).toMatchObject({
      gate: { seen: 8, refused: 0 },
      mark: { refused: 4, byStatus: { 'sold-out': 4 } },
      stock: { seen: 4, refused: 2 },
    })
    // A winner whose answer was lost on the way hears more than the crowd.
    expect((await submit('u1')).status).toBe('already-bought')
    await sale.stop()
  })

  it('F3 limits', async () => {
    const slow = (burst: number) => ({ burst, perSecond: 0.01 })
    const limiter = new RateLimiter({
      redis: mockRedis(),
      resources: { submit: { total: slow(100), user: slow(2), ip: slow(50) } },
      timeoutMs: 5_000,
    })
    const { sale, submit } = await shop({ limiter })
    expect((await submit('u1')).status).toBe('queued')
    expect((await submit('u1')).status).toBe('already-bought')
    expect(await submit('u1')).toMatchObject({ status: 'rate-limited', by: 'user' })
    await expect(submit('u1', 'unknown')).rejects.toMatchObject({ code: 'BAD_INPUT' })
    expect(sale.refusals()['limit']).toMatchObject({ seen: 3, refused: 1 })
    await sale.stop()
  })

  it('F7 backpressure', async () => {
    let lag = 9
    const backpressure = new BackpressureGate({
      probes: [{ name: 'lag', high: 5, low: 1, read: () => lag }],
      intervalMs: 5,
    })
    const { sale, submit } = await shop({ backpressure })
    await sale.start()
    await new Promise((resolve) => setTimeout(resolve, 30))
    expect(await submit('u1')).toMatchObject({ status: 'busy', cause: 'probe' })
    lag = 0
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect((await submit('u1')).status).toBe('queued')
    await sale.stop()
  })
})
