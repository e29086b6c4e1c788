import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'

test("the README's whole sale runs as printed, in about 30 lines", () => {
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
  const code = /```ts\n([\s\S]*?)```/.exec(readme)?.[1] ?? ''
  const statements = code.split('\n').filter((line) => line.trim() !== '')
  expect(statements.length).toBeLessThan(45)
  const file = new URL('./readme-sale.tmp.ts', import.meta.url)
  // A machine with other work may keep the process waiting longer than a buyer would be.
  const patient = code.replace('tokens })\n', 'tokens, stock: { maxWaitMs: 60_000 } })\n')
  expect(patient).not.toBe(code)
  writeFileSync(file, patient)
  try {
    const run = spawnSync(process.execPath, ['--import', 'tsx', file.pathname], {
      encoding: 'utf8',
    })
    expect(run.stderr).toBe('')
    expect(run.status).toBe(0)
    expect(run.stdout).toMatch(/^ann \{ status: 'queued', orderNo: '\w+', replayed: false \}$/m)
    expect(run.stdout).toMatch(/^dan \{ status: 'sold-out' \}$/m)
    expect(run.stdout).toMatch(/^ann \{ status: 'queued', orderNo: '\w+', replayed: true \}$/m)
    expect(run.stdout).toMatch(/^\{ status: 'confirmed', orderNo: '\w+' \}$/m)
    expect(run.stdout).toMatch(/^orders confirmed +3$/m)
    expect(run.stdout).toMatch(/^difference +0$/m)
  } finally {
    rmSync(file, { force: true })
  }
})
