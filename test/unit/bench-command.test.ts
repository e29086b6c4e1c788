import { expect, it } from 'vitest'
import { spawnNode } from '../harness/spawn-node.js'

const BENCH = new URL('../../scripts/bench/index.ts', import.meta.url)

async function bench(...args: string[]) {
  const child = await spawnNode(BENCH, { args })
  const { code } = await child.exited
  return { code, output: child.output() }
}

it('the bench command says what there is, and ends with 2 for what there is not', async () => {
  const [help, none, wrong] = await Promise.all([
    bench('--help'),
    bench(),
    bench('nonsense', '--json'),
  ])
  expect([help.code, none.code, wrong.code]).toEqual([0, 2, 2])
  for (const { output } of [help, none, wrong]) expect(output).toMatch(/admission.*http/)
})
