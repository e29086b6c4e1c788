import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { afterAll, beforeAll, expect, test } from 'vitest'

const root = fileURLToPath(new URL('../../', import.meta.url))
const page = readFileSync(`${root}docs/testing.md`, 'utf8')
const snippets = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = ''], i) => ({
  code,
  file: `${root}test/unit/testing-snippet-${i + 1}.tmp.ts`,
}))
const files = snippets.map(({ file }) => file)

beforeAll(() => {
  for (const { file, code } of snippets) writeFileSync(file, code)
})
afterAll(() => {
  for (const file of files) rmSync(file, { force: true })
})

test('the snippets of testing.md have the types they say', { timeout: 120_000 }, () => {
  expect(snippets.length).toBeGreaterThanOrEqual(5)
  const { config } = ts.readConfigFile(`${root}tsconfig.json`, ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files }, ts.sys, root)
  const program = ts.createProgram(files, options)
  const wrong = files.flatMap((file) => {
    const found = ts.getPreEmitDiagnostics(program, program.getSourceFile(file))
    return found.map((one) => ts.flattenDiagnosticMessageText(one.messageText, '\n'))
  })
  expect(wrong).toEqual([])
})

test.each(snippets)('$file runs as printed', { timeout: 120_000 }, ({ file }) => {
  const run = spawnSync(
    process.execPath,
    ['--import', 'tsx', '--test', '--test-reporter=tap', file],
    {
      cwd: root,
      encoding: 'utf8',
      timeout: 100_000,
      env: { ...process.env, NODE_TEST_CONTEXT: undefined },
    },
  )
  expect(run.stdout + run.stderr).toMatch(/^# fail 0$/m)
  expect(run.stdout).not.toMatch(/^# pass 0$/m)
  expect(run.status).toBe(0)
})
