import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { SkuRef } from '../../src/core/types.js'
import { type ShownNumbers, StockDisplay } from '../../src/gate/stock-display.js'

const REF = { activityId: 'a1', skuId: 's1' }

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const later = (ms: number) => vi.advanceTimersByTimeAsync(ms)

/** A store that counts its reads; `answer` may be slow, wrong or away. */
function world(o = {}) {
  const store = {
    available: 10,
    reads: [] as string[],
    errors: [] as unknown[],
    answer: async (): Promise<ShownNumbers> => ({ total: 10, available: store.available }),
  }
  const display = new StockDisplay({
    read: (ref) => {
      store.reads.push(ref.skuId)
      return store.answer()
    },
    onError: (error) => store.errors.push(error),
    ...o,
  })
  return Object.assign(store, { display, show: (ref: SkuRef = REF) => display.show(ref) })
}

const slowly = (w: ReturnType<typeof world>, ms: number) => async () => {
  const { available } = w
  await new Promise((resolve) => setTimeout(resolve, ms))
  return { total: 10, available }
}

describe('StockDisplay', () => {
  it('F12 reads once for all who look within the TTL', async () => {
    const w = world()
    const views = await Promise.all(Array.from({ length: 100 }, () => w.show()))
    for (const view of views)
      expect(view).toEqual({ shown: true, total: 10, available: 10, ageMs: 0 })
    w.available = 4
    await later(1_000)
    expect(await w.show()).toMatchObject({ available: 10, ageMs: 1_000 })
    expect(w.reads).toEqual(['s1'])
  })

  it('F12 past the TTL one caller reads while the others are shown the old number', async () => {
    const w = world()
    await w.show()
    w.available = 4
    w.answer = slowly(w, 500)
    await later(1_001)
    const views = await Promise.all(Array.from({ length: 50 }, () => w.show()))
    for (const view of views) expect(view).toMatchObject({ available: 10, ageMs: 1_001 })
    expect(w.reads).toHaveLength(2)
    await later(500)
    expect(await w.show()).toEqual({ shown: true, total: 10, available: 4, ageMs: 500 })
  })

  it('F12 a number too old to be shown is waited for', async () => {
    const w = world({ maxStaleMs: 5_000 })
    await w.show()
    w.available = 4
    await later(5_001)
    expect(await w.show()).toMatchObject({ available: 4 })
  })

  it('F12 after an invalidation nobody sees the old number, nor one whose reading had begun before', async () => {
    const w = world()
    w.available = 0
    w.answer = slowly(w, 100)
    const before = w.show()
    await later(50)
    w.available = 7 // units come back here
    w.display.invalidate(REF)
    const after = Promise.all([w.show(), w.show()])
    await later(50)
    expect(await before).toMatchObject({ available: 0 })
    await later(50)
    expect(await after).toMatchObject([{ available: 7 }, { available: 7 }])
    expect(await w.show()).toMatchObject({ available: 7 })
    expect(w.reads).toHaveLength(2)
  })

  it('F12 shows the old number for a while when it cannot be read, then none, and recovers', async () => {
    const w = world({ maxStaleMs: 3_000 })
    await w.show()
    w.answer = () => Promise.reject(new Error('away'))
    await later(2_000)
    expect(await w.show()).toMatchObject({ available: 10 })
    await later(1_001)
    expect(await w.show()).toEqual({ shown: false })
    w.answer = async () => ({ total: 10, available: 3 })
    await later(1_000)
    expect(await w.show()).toMatchObject({ available: 3 })
    expect(w.errors).toHaveLength(2)
  })

  it('F12 a store in trouble is asked once a TTL, not by every view', async () => {
    const w = world()
    w.answer = () => Promise.reject(new Error('away'))
    for (let i = 0; i < 40; i++) {
      expect(await w.show()).toEqual({ shown: false })
      await later(50)
    }
    expect(w.reads.length).toBeLessThanOrEqual(3)
  })

  it('F12 a read that hangs ends at its deadline', async () => {
    const w = world({ readTimeoutMs: 300 })
    w.answer = () => new Promise(() => {})
    const view = w.show()
    await later(301)
    expect(await view).toEqual({ shown: false })
    expect(String(w.errors[0])).toContain('not read within 300 ms')
  })

  it.each([
    [null],
    [{ total: 10, available: 11 }],
    [{ total: 10, available: -1 }],
    [{ total: 10, available: '3' }],
    [{ total: 10, available: Number.NaN }],
    [{ available: 3 }],
  ])('F12 shows nothing rather than %j', async (numbers) => {
    const w = world()
    w.answer = async () => numbers as never
    expect(await w.show()).toEqual({ shown: false })
    expect(w.errors).toMatchObject([{ code: 'BAD_INPUT' }])
  })

  it('F12 remembers a bounded number of SKUs', async () => {
    const w = world({ maxSkus: 2 })
    for (const skuId of ['s1', 's2', 's3', 's3', 's2', 's1']) await w.show({ ...REF, skuId })
    expect(w.reads).toEqual(['s1', 's2', 's3', 's1'])
  })

  it('F12 what it shows cannot be taken for an answer to a purchase', async () => {
    expect(await world().show()).not.toHaveProperty('status')
  })

  it('F12 refuses what is no SKU', async () => {
    const w = world()
    await expect(w.show({ activityId: 'a:1', skuId: 's1' })).rejects.toMatchObject({
      code: 'BAD_INPUT',
    })
    expect(() => w.display.invalidate({ activityId: 'a1', skuId: '' })).toThrowError('skuId')
    expect(w.reads).toEqual([])
  })

  it.each([
    [{ read: 1 }, 'option read must be a function, got 1'],
    [{ ttlMs: 60_001 }, 'option ttlMs must be a whole number from 1 to 60000, got 60001'],
    [{ maxStaleMs: -1 }, 'option maxStaleMs'],
    [{ readTimeoutMs: 0 }, 'option readTimeoutMs'],
    [{ maxSkus: 0 }, 'option maxSkus'],
    [{ onError: 'log' }, 'option onError must be a function'],
  ] as const)('F12 refuses the options %j', (o, message) => {
    expect(() => world(o)).toThrowError(message)
  })
})
