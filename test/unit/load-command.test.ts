import { describe, expect, it } from 'vitest'
import { isExact, latencyOf, merged, type Step } from '../../scripts/load/step.js'
import { spawnNode } from '../harness/spawn-node.js'

const LOAD = new URL('../../scripts/load.ts', import.meta.url)

async function load(...args: string[]) {
  const child = await spawnNode(LOAD, { args })
  const { code } = await child.exited
  return { code, output: child.output() }
}

describe('the load command', () => {
  it('says what there is, and ends with 2 for what there is not', {
    timeout: 120_000,
  }, async () => {
    const [help, ...wrong] = await Promise.all([
      load('--help'),
      load('l4'),
      load('l1', '--steps', '50,x'),
      load('l3', '--db', 'sqlite'),
    ])
    expect(help.code).toBe(0)
    expect(wrong.map(({ code }) => code)).toEqual(wrong.map(() => 2))
    for (const { output } of [help, ...wrong]) expect(output).toMatch(/l1.*\n.*l2.*\n.*l3/)
  })

  it('takes percentiles by rank, of one wait as of many', () => {
    const waits = Array.from({ length: 200 }, (_, i) => 200 - i)
    expect(latencyOf(waits)).toEqual({ p50: 100, p95: 190, p99: 198, max: 200 })
    expect(latencyOf([7])).toEqual({ p50: 7, p95: 7, p99: 7, max: 7 })
  })

  it('adds up what the layers of several processes have refused', () => {
    const one = { stock: { seen: 3, refused: 1, rate: 1 / 3, byStatus: { busy: 1 } } }
    const other = {
      stock: { seen: 1, refused: 1, rate: 1, byStatus: { 'sold-out': 1 } },
      gate: { seen: 4, refused: 0, rate: 0, byStatus: {} },
    }
    expect(merged([one, other])).toEqual({
      stock: { seen: 4, refused: 2, rate: 0.5, byStatus: { busy: 1, 'sold-out': 1 } },
      gate: { seen: 4, refused: 0, rate: 0, byStatus: {} },
    })
  })

  it('calls a step exact only when nothing was sold twice, lost, or left over', () => {
    const step: Step = {
      callers: 50,
      perSecond: 1,
      latencyMs: latencyOf([1]),
      layers: {},
      exactness: { oversold: 0, lost: 0, difference: 0 },
    }
    expect(isExact(step)).toBe(true)
    for (const fault of ['oversold', 'lost', 'difference'])
      expect(isExact({ ...step, exactness: { ...step.exactness, [fault]: 1 } })).toBe(false)
  })
})
