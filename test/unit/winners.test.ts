import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Winners } from '../../src/gate/winners.js'

const REF = { activityId: 'a1', skuId: 's1' }
const settled = () => vi.advanceTimersByTimeAsync(5)

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

interface World {
  loads: number
  stamp: string
  load: () => Promise<ReadonlySet<string> | null>
  winners: Winners
  mayBe: (user: string) => boolean
}

function world(users: ReadonlySet<string> | null): World {
  const w: World = {
    loads: 0,
    stamp: '1:1',
    load: async () => users,
    winners: new Winners({
      load: () => {
        w.loads++
        return w.load()
      },
      stamp: () => w.stamp,
    }),
    mayBe: (user: string) => w.winners.mayBe(REF, user),
  }
  return w
}

test('everybody may be one until the list is here, then only those on it', async () => {
  const w = world(new Set(['ann']))
  for (let i = 0; i < 10; i++) expect(w.mayBe(`u${i}`)).toBe(true)
  await settled()
  expect(w.loads).toBe(1)
  expect(w.mayBe('ann')).toBe(true)
  expect(w.mayBe('bob')).toBe(false)
})

test('when somebody may have bought it is read again', async () => {
  const w = world(new Set())
  w.mayBe('x')
  await settled()
  expect(w.mayBe('bob')).toBe(false)
  w.stamp = '1:2'
  w.load = async () => new Set(['bob'])
  await vi.advanceTimersByTimeAsync(1_000)
  expect(w.mayBe('bob')).toBe(true)
  await settled()
  expect(w.mayBe('bob')).toBe(true)
  expect(w.mayBe('eve')).toBe(false)
})

test('another SKU that sells has it read once a second, not by every click; meanwhile nobody is told he is none', async () => {
  const w = world(new Set(['ann']))
  for (let ms = 0; ms < 3_000; ms += 10) {
    w.stamp = `1:${ms}`
    expect(w.mayBe('bob')).toBe(true)
    await vi.advanceTimersByTimeAsync(10)
  }
  expect(w.loads).toBe(3)
})

test('what was read while somebody bought is not taken for complete', async () => {
  const w = world(new Set())
  w.load = async () => {
    w.stamp = '1:2'
    return new Set()
  }
  w.mayBe('bob')
  await settled()
  expect(w.mayBe('bob')).toBe(true)
})

test('too many to remember: nobody is known', async () => {
  const w = world(null)
  w.mayBe('x')
  await settled()
  expect(w.mayBe('ann')).toBe(false)
})

test('a ledger that cannot be read is not asked by every click, and nobody is refused for it', async () => {
  const w = world(null)
  w.load = () => Promise.reject(new Error('down'))
  for (let i = 0; i < 20; i++) {
    expect(w.mayBe('ann')).toBe(true)
    await settled()
  }
  expect(w.loads).toBe(1)
  await vi.advanceTimersByTimeAsync(1_000)
  expect(w.mayBe('ann')).toBe(true)
  expect(w.loads).toBe(2)
})
