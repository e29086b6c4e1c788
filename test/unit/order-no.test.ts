import { expect, it, vi } from 'vitest'
import * as check from '../../src/core/check.js'
import { newOrderNo, orderNoMadeAt } from '../../src/core/order-no.js'

it('sorts by time, over all the years it has digits for', () => {
  const instants = [
    1e12, 1_790_000_000_000, 1_790_000_000_001, 2_821_109_907_455, 2_821_109_907_456, 9.9e13,
  ]
  const numbers = instants.map((at) => newOrderNo(at))
  expect([...numbers].sort()).toEqual(numbers)
  expect(numbers.map((no) => orderNoMadeAt(no))).toEqual(instants)
})

it('is an id that every path takes: 19 digits and small letters', () => {
  for (let i = 0; i < 1_000; i++) {
    const no = newOrderNo()
    expect(no).toMatch(/^[0-9a-z]{19}$/)
    expect(check.keyId(no, 'no')).toBe(no)
  }
})

it('is told apart from others of its millisecond by a random tail', () => {
  const at = 1_790_000_000_000
  const numbers = Array.from({ length: 50_000 }, () => newOrderNo(at))
  expect(new Set(numbers).size).toBe(numbers.length)
  // Every digit at every place of the tail, about equally often.
  for (let place = 9; place < 19; place++) {
    const counts = new Map<string, number>()
    for (const no of numbers)
      counts.set(no[place] as string, (counts.get(no[place] as string) ?? 0) + 1)
    expect(counts.size).toBe(36)
    expect(Math.min(...counts.values())).toBeGreaterThan(1_000)
    expect(Math.max(...counts.values())).toBeLessThan(1_900)
  }
})

it('takes the clock of the moment', () => {
  vi.useFakeTimers({ now: 1_800_000_000_000 })
  expect(orderNoMadeAt(newOrderNo())).toBe(1_800_000_000_000)
  vi.useRealTimers()
})

it.each([Number.NaN, -1, 0, 1.5, Infinity, 1_790_000_000, '1790000000000', null])(
  'refuses to be made at %j',
  (at) => {
    expect(() => newOrderNo(at as never)).toThrow('now')
  },
)

it.each([
  '',
  'o1',
  '0mx00000000000000000',
  '0MX0000000000000000',
  '0mx000000000000000 ',
  'zzzzzzzzz0000000000',
  '0000000000000000000',
  '９mx0000000000000000',
])('does not say when %j was made: it is of another make', (no) => {
  expect(orderNoMadeAt(no)).toBeNull()
})
