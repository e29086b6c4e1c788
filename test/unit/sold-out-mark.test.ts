import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { SoldOutMark } from '../../src/gate/sold-out-mark.js'

const REF = { activityId: 'a1', skuId: 's1' }
const SOLD_OUT = { status: 'sold-out' } as const

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

type Answer = { readonly status: string; readonly replayed?: boolean }

/** A Redis that is asked through the mark, and counts. */
function world(o = {}) {
  const mark = new SoldOutMark(o)
  const w = {
    mark,
    asked: 0,
    answer: async (): Promise<Answer> => SOLD_OUT,
    buy: (ref = REF, version = 'v1') =>
      mark.through(ref, version, () => {
        w.asked++
        return w.answer()
      }),
    refusal: (ref = REF, version = 'v1') => mark.refusal(ref, version),
  }
  return w
}

const reserved = async () => ({ status: 'reserved', replayed: false })

describe('SoldOutMark', () => {
  it('F5 refuses without Redis after one answer "sold out", and lets nothing pass that it has not seen refused', async () => {
    const w = world()
    expect(w.refusal()).toBeNull()
    expect(await w.buy()).toEqual(SOLD_OUT)
    expect(w.asked).toBe(1)
    for (let i = 0; i < 100; i++) expect(await w.buy()).toEqual(SOLD_OUT)
    expect(w.refusal()).toEqual(SOLD_OUT)
    expect(w.asked).toBe(1)
  })

  it('F5 is of one activity, SKU and version', async () => {
    const w = world()
    await w.buy()
    expect(w.refusal({ ...REF, skuId: 's2' })).toBeNull()
    expect(w.refusal({ ...REF, activityId: 'a2' })).toBeNull()
    expect(w.refusal(REF, 'v2')).toBeNull()
  })

  it.each([
    ['not-enough', true],
    ['reserved', true],
    ['queued', true],
    ['confirmed', true],
    ['busy', false],
    ['stopped', false],
    ['unknown', false],
    ['try-again', false],
  ])('F5 %s does not set it', async (status, clears) => {
    const w = world()
    w.answer = async () => ({ status, replayed: false })
    await w.buy()
    expect(w.refusal()).toBeNull()
    // And of a mark that has run out, it clears only what shows units.
    w.answer = async () => SOLD_OUT
    await w.buy()
    await vi.advanceTimersByTimeAsync(250)
    w.answer = async () => ({ status, replayed: false })
    await w.buy()
    w.answer = () => new Promise(() => {})
    void w.buy()
    void w.buy()
    expect(w.asked).toBe(clears ? 5 : 4)
  })

  it('F5 a replay of an earlier win shows no units', async () => {
    const w = world()
    await w.buy()
    await vi.advanceTimersByTimeAsync(250)
    w.answer = async () => ({ status: 'reserved', replayed: true })
    await w.buy()
    w.answer = () => new Promise(() => {})
    void w.buy()
    expect(await w.buy()).toEqual(SOLD_OUT)
  })

  it('F5 when it runs out, one caller asks and the others are refused until he is answered', async () => {
    const w = world()
    await w.buy()
    await vi.advanceTimersByTimeAsync(249)
    expect(w.refusal()).toEqual(SOLD_OUT)
    await vi.advanceTimersByTimeAsync(1)
    expect(w.refusal()).toBeNull()
    let answer: (a: Answer) => void = () => {}
    w.answer = () =>
      new Promise((resolve) => {
        answer = resolve
      })
    const asking = w.buy()
    for (let i = 0; i < 100; i++) expect(await w.buy()).toEqual(SOLD_OUT)
    expect(w.refusal()).toEqual(SOLD_OUT)
    expect(w.asked).toBe(2)
    answer({ status: 'reserved', replayed: false })
    expect(await asking).toEqual({ status: 'reserved', replayed: false })
    expect(w.refusal()).toBeNull()
    w.answer = reserved
    expect(await w.buy()).toMatchObject({ status: 'reserved' })
  })

  it('F5 a caller who asks and hears nothing holds the others up for the TTL at most', async () => {
    const w = world()
    await w.buy()
    await vi.advanceTimersByTimeAsync(250)
    w.answer = () => new Promise(() => {})
    void w.buy()
    await vi.advanceTimersByTimeAsync(249)
    expect(w.refusal()).toEqual(SOLD_OUT)
    await vi.advanceTimersByTimeAsync(1)
    w.answer = reserved
    expect(await w.buy()).toMatchObject({ status: 'reserved' })
  })

  it('F5 a caller who asks and fails leaves the asking to the next', async () => {
    const w = world()
    await w.buy()
    await vi.advanceTimersByTimeAsync(250)
    w.answer = () => Promise.reject(new Error('away'))
    await expect(w.buy()).rejects.toThrow('away')
    w.answer = reserved
    expect(await w.buy()).toMatchObject({ status: 'reserved' })
  })

  it('F5 C05 (d) an answer that was on its way when units came back does not stretch the bound', async () => {
    const w = world()
    w.answer = async () => {
      await new Promise((resolve) => setTimeout(resolve, 200))
      return SOLD_OUT
    }
    const slow = w.buy()
    await vi.advanceTimersByTimeAsync(10) // units come back here
    await vi.advanceTimersByTimeAsync(190)
    await slow
    expect(w.refusal()).toEqual(SOLD_OUT)
    await vi.advanceTimersByTimeAsync(50) // 250 ms after it was asked: 240 after the units came back
    expect(w.refusal()).toBeNull()
  })

  it('F5 clear lets the next caller through at once', async () => {
    const w = world()
    await w.buy()
    w.mark.clear(REF, 'v1')
    expect(w.refusal()).toBeNull()
  })

  it('F5 remembers a bounded number of SKUs, and forgetting costs a trip only', async () => {
    const w = world({ maxMarks: 3 })
    for (let i = 0; i < 5; i++) await w.buy({ ...REF, skuId: `s${i}` })
    const marked = [0, 1, 2, 3, 4].map((i) => w.refusal({ ...REF, skuId: `s${i}` }) !== null)
    expect(marked).toEqual([false, false, true, true, true])
  })

  it.each([
    [{ ttlMs: -1 }, 'option ttlMs must be a whole number from 0 to 60000, got -1'],
    [{ ttlMs: 0.5 }, 'option ttlMs'],
    [{ maxMarks: 0 }, 'option maxMarks'],
    [null, 'options must be an object'],
  ] as const)('F5 refuses the options %j', (o, message) => {
    expect(() => new SoldOutMark(o as never)).toThrowError(message)
  })
})
