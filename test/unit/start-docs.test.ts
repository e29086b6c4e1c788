import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../../', import.meta.url))
const page = readFileSync(`${root}docs/start.md`, 'utf8')

/** The whole files of the page: what begins with an import and needs nothing above it. */
const snippets = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = '']) => code)
const whole = snippets.filter((code) => code.includes('new FlashSale('))
const virtual = new Map(whole.map((code, i) => [`${root}test/unit/start-${i + 1}.ts`, code]))
/** The reader's own. */
virtual.set(
  `${root}test/unit/session.ts`,
  `import type { Request } from 'express'
   export declare function sessionOf(req: Request): { readonly userId: string } | null`,
)

test('the files of start.md have the types they say', { timeout: 120_000 }, () => {
  expect(whole).toHaveLength(2)
  const { config } = ts.readConfigFile(`${root}tsconfig.json`, ts.sys.readFile)
  const files = [...virtual.keys()]
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files }, ts.sys, root)
  const host = ts.createCompilerHost(options)
  const { fileExists, readFile } = host
  host.fileExists = (file) => virtual.has(file) || fileExists.call(host, file)
  host.readFile = (file) => virtual.get(file) ?? readFile.call(host, file)
  const program = ts.createProgram(files, options, host)
  const wrong = files.flatMap((file) =>
    ts
      .getPreEmitDiagnostics(program, program.getSourceFile(file))
      .map((one) => ts.flattenDiagnosticMessageText(one.messageText, '\n')),
  )
  expect(wrong).toEqual([])
})
