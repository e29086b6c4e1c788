import { expect, it } from 'vitest'
import { spawnNode } from '../harness/spawn-node.js'

const LOAD = new URL('../../scripts/load.ts', import.meta.url)

async function load(...args: string[]) {
  const child = await spawnNode(LOAD, { args: [...args, '--requests', '600', '--json'] })
  const { code } = await child.exited
  const output = child.output()
  expect(code, output).toBe(0)
  return JSON.parse(output.trim().split('\n').at(-1) ?? '')
}

const exactness = { oversold: 0, lost: 0, difference: 0 }

it('L1 sells exactly half of the clicks a unit, by a script each, in batches, and over four keys', {
  timeout: 180_000,
}, async () => {
  const { exact, steps } = await load('l1', '--steps', '20,50')
  expect(exact).toBe(true)
  expect(steps.map((step: { way: string }) => step.way)).toEqual([
    ...['single', 'batched', 'fourSkus'],
    ...['single', 'batched', 'fourSkus'],
  ])
  const stock = { seen: 600, refused: 300, rate: 0.5, byStatus: { 'sold-out': 300 } }
  for (const step of steps) expect(step).toMatchObject({ layers: { stock }, exactness })
})

it('L2 has somebody to refuse in each layer, and carries every unit through the queue', {
  timeout: 180_000,
}, async () => {
  const { exact, steps } = await load('l2', '--steps', '20')
  expect(exact).toBe(true)
  expect(steps).toMatchObject([{ callers: 20, exactness }])
  const { gate, limit, token, mark, stock } = steps[0].layers
  expect(gate.byStatus).toEqual({ 'over-limit': 12 })
  for (const layer of [limit, token]) expect(layer.refused).toBeGreaterThan(0)
  expect(mark.refused + stock.refused).toBeGreaterThan(0)
})

it('L3 sends every click to the shops, and their layers together have seen each of them', {
  timeout: 180_000,
}, async () => {
  const { exact, db, steps } = await load('l3', '--db', 'postgres', '--steps', '50')
  expect({ exact, db }).toEqual({ exact: true, db: 'postgres' })
  expect(steps).toMatchObject([{ callers: 50, exactness, layers: { gate: { seen: 600 } } }])
})
