import { expect, it } from 'vitest'
import { spawnNode } from '../harness/spawn-node.js'

const SIMULATE = new URL('../../scripts/simulate.ts', import.meta.url)

async function simulate(...args: string[]) {
  const child = await spawnNode(SIMULATE, { args })
  const { code } = await child.exited
  return { code, output: child.output() }
}

const lastLine = (output: string) => JSON.parse(output.trim().split('\n').at(-1) ?? '')

it('the simulate command says what there is, and ends with 2 for what there is not', {
  timeout: 180_000,
}, async () => {
  const [help, seeds, broken] = await Promise.all([
    simulate('--help'),
    simulate('--seeds', '1.5'),
    simulate('--broken', 'nonsense'),
  ])
  expect([help.code, seeds.code, broken.code]).toEqual([0, 2, 2])
  for (const { output } of [help, seeds, broken])
    expect(output).toMatch(/--seeds N.*\n(.*\n)*.*--broken ID/)
})

it('it ends with one line of JSON', { timeout: 180_000 }, async () => {
  const [good, caught, missed] = await Promise.all([
    simulate('--seeds', '2', '--json'),
    simulate('--broken', 'L1', '--json'),
    simulate('--broken', 'Cn', '--seeds', '1', '--json'),
  ])
  expect(good.code, good.output).toBe(0)
  expect(lastLine(good.output)).toMatchObject({ from: 1, seeds: 2, breaches: 0, breach: null })
  expect(caught.code, caught.output).toBe(0)
  expect(lastLine(caught.output)).toMatchObject({ caught: [{ id: 'L1', by: 'I2+' }], missed: [] })
  expect(missed.code, missed.output).toBe(1)
  expect(lastLine(missed.output)).toMatchObject({ caught: [], missed: ['Cn'] })
})
