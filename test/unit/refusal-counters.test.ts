import { describe, expect, it } from 'vitest'
import { RefusalCounters } from '../../src/gate/refusal-counters.js'

describe('RefusalCounters', () => {
  it('F6 shows what each layer saw, refused and why', () => {
    const counters = new RefusalCounters()
    for (let i = 0; i < 6; i++) counters.refused('gate', i < 4 ? 'not-open' : 'stopped')
    counters.passed('gate')
    counters.passed('gate')
    counters.refused('limit', 'rate-limited')
    counters.passed('stock')
    expect(counters.snapshot()).toEqual({
      gate: { seen: 8, refused: 6, rate: 0.75, byStatus: { 'not-open': 4, stopped: 2 } },
      limit: { seen: 1, refused: 1, rate: 1, byStatus: { 'rate-limited': 1 } },
      stock: { seen: 1, refused: 0, rate: 0, byStatus: {} },
    })
    expect(Object.keys(counters.snapshot())).toEqual(['gate', 'limit', 'stock'])
  })

  it('F6 a snapshot stays as it was taken, and counting goes on', () => {
    const counters = new RefusalCounters()
    counters.refused('gate', 'ended')
    const first = counters.snapshot()
    counters.refused('gate', 'ended')
    expect(first['gate']?.refused).toBe(1)
    expect(counters.snapshot()['gate']?.refused).toBe(2)
  })

  it('F6 an empty one shows nothing', () => {
    expect(new RefusalCounters().snapshot()).toEqual({})
  })

  it('F6 memory stays bounded whatever names it is given, and nothing is lost', () => {
    const counters = new RefusalCounters()
    for (let i = 0; i < 1_000; i++) counters.refused(`layer-${i}`, 'x')
    for (let i = 0; i < 1_000; i++) counters.refused('layer-0', `status-${i}`)
    const all = counters.snapshot()
    expect(Object.keys(all).length).toBeLessThanOrEqual(101)
    expect(Object.keys(all['layer-0']?.byStatus ?? {}).length).toBeLessThanOrEqual(101)
    expect(Object.values(all).reduce((sum, layer) => sum + layer.refused, 0)).toBe(2_000)
  })

  it('F6 names like __proto__ are names', () => {
    const counters = new RefusalCounters()
    counters.refused('__proto__', 'constructor')
    expect(Object.entries(counters.snapshot())).toMatchObject([['__proto__', { refused: 1 }]])
  })
})
