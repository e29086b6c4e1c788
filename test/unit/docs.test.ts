import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { IdempotencyGuard } from '../../src/idempotency/idempotency-guard.js'
import { tablesOf } from '../../src/knex/sql/names.js'
import { skuKeys, tokenKey } from '../../src/redis/keys.js'

const root = fileURLToPath(new URL('../../', import.meta.url))
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const filesIn = (folder: string, end: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith(end))
    .map((path) => join(folder, path))

const pages = ['README.md', 'CHANGELOG.md', ...filesIn('docs', '.md')]
const everything = pages.map(read).join('\n')

/** Subpaths whose page is still to be written. */
const WITHOUT_A_PAGE: readonly string[] = []

/** Exported names whose page is still to be written: each of them is a debt. */
const NOT_YET: readonly string[] = []

/** The modules behind the other subpaths of the package. */
const entries = [...read('tsup.config.ts').matchAll(/^ {4}'?([\w-]+)'?: '(src\/.+\.ts)'/gm)]
  .filter(([, subpath = '']) => !WITHOUT_A_PAGE.includes(subpath))
  .map(([, , path]) => path as string)

/** The first groups of all matches, each once. */
function all(pattern: RegExp, text: string): string[] {
  return [...new Set([...text.matchAll(pattern)].map((match) => match[1] as string))]
}

/** Fails when the code has fewer than `least`: then the pattern has lost sight of it, and would prove nothing. */
function some(names: readonly string[], least: number): readonly string[] {
  expect(names.length, names.join(' ')).toBeGreaterThanOrEqual(least)
  return names
}

const missingIn = (page: string, names: readonly string[]) =>
  names.filter((name) => !page.includes(`\`${name}\``))

/** As GitHub makes them of headings. */
const anchorsOf = (page: string) =>
  all(/^#+ (.+)$/gm, page).map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )

/** Names exported by a module, those of its `export type *` included. */
function exportsOf(path: string): string[] {
  const code = read(path).replace(/\/\*\*[\s\S]*?\*\//g, '')
  const lists = all(/export (?:type )?\{([^}]*)\}/g, code).flatMap((list) =>
    list.split(',').map((name) => name.trim().replace(/^type /, '')),
  )
  const own = all(/export (?:async )?(?:class|function|interface|type|const) (\w+)/g, code)
  const whole = all(/export type \* from '(.+)'/g, code).flatMap((from) =>
    exportsOf(join(dirname(path), from.replace('.js', '.ts'))),
  )
  return [...lists, ...own, ...whole].filter((name) => name !== '')
}

describe('docs', () => {
  it.each(pages)('every link of %s leads somewhere', (path) => {
    const page = read(path).replace(/```[\s\S]*?```/g, '')
    const broken = all(/\]\(([^)\s]+)\)/g, page).filter((link) => {
      if (/^https?:/.test(link)) return false
      const [file = '', anchor] = link.split('#')
      const target = file === '' ? path : join(dirname(path), file)
      if (!existsSync(join(root, target))) return true
      return anchor !== undefined && !anchorsOf(read(target)).includes(anchor)
    })
    expect(broken).toEqual([])
  })

  it('failure-modes.md has every scenario of the chaos command', () => {
    const files = filesIn('test/chaos/scenarios', '.ts').map(read).join('\n')
    const names = some(all(/^ {2}name: '([\w-]+)',$/gm, files), 20)
    expect(missingIn(read('docs/failure-modes.md'), names)).toEqual([])
  })

  it('names everything that is exported', () => {
    const names = some(entries.flatMap(exportsOf), 100)
    const missing = missingIn(everything, names).filter((name) => !NOT_YET.includes(name))
    expect(missing, 'write them into docs/api.md, beside their page').toEqual([])
  })

  it('http.md has a row for every status and every error, as to-http.ts answers them', () => {
    const page = read('docs/http.md')
    const code = read('src/http/to-http.ts')
    const rows = [...code.matchAll(/^ {2}'?([\w-]+)'?: \[(\d+), '(SECKILL_\w+)'(.*)\],$/gm)]
    some(
      rows.map(([row]) => row),
      25,
    )
    const lacking = rows.filter(([, status, http, name, details = '']) => {
      const row = page
        .split('\n')
        .find((line) => line.startsWith('|') && line.split('|')[1]?.includes(`\`${status}\``))
      const wanted = [`| ${http} | \`${name}\` |`, ...all(/'(\w+)'/g, details)]
      return !row || !wanted.every((part) => row.includes(part))
    })
    expect(lacking.map(([row]) => row)).toEqual([])
    expect(missingIn(page, some(all(/'(SECKILL_\w+)'/g, code), 30))).toEqual([])
    const errors = some(all(/^ {2}\| '(\w+)'$/gm, read('src/core/errors.ts')), 11)
    expect(missingIn(page, errors)).toEqual([])
    expect(missingIn(read('docs/api.md'), errors)).toEqual([])
  })

  it('stock.md has every code of the deduct script, every key and every field', () => {
    const page = read('docs/stock.md')
    const head = read('lua/deduct.lua').split('-- @include')[0] as string
    const codes = some(all(/[\s{](-?\d+)(?: [a-z]|\} )/g, head.slice(head.indexOf('Returns'))), 18)
    expect(codes.filter((code) => !page.includes(`| \`${code}\` |`))).toEqual([])
    const keys = [
      ...Object.values(skuKeys('activityId', 'skuId')),
      tokenKey('activityId', 'tokenId'),
    ]
    expect(missingIn(page, keys)).toEqual([])
    const written = read('lua/warm-up.lua').split("'HSET', KEYS[1], ' '")[1] ?? ''
    expect(missingIn(page, some(all(/'([a-zA-Z]+)',/g, written), 15).filter(isField))).toEqual([])
    const what = all(/return \{0, '(\w+)'/g, read('lua/warm-up.lua'))
    expect(missingIn(page, some(what, 6))).toEqual([])
  })

  it('pipeline.md and operating.md say what to do at every alert', () => {
    const code = filesIn('src/pipeline', '.ts').map(read).join('\n')
    const alerts = some(all(/alert\('([a-z-]+)'/g, code), 9)
    const passedOn = all(/outcome\.status === '([a-z-]+)'\)?\s+this\.alert\(outcome/g, code)
    const rows = (path: string) => all(/^\| `([a-z-]+)`/gm, read(path))
    for (const path of ['docs/pipeline.md', 'docs/operating.md'])
      expect(
        [...alerts, ...passedOn, 'not-warmed'].filter((alert) => !rows(path).includes(alert)),
      ).toEqual([])
  })

  it('reconcile.md has every finding and every repair', () => {
    const page = read('docs/reconcile.md')
    const code = read('src/reconcile/classify.ts') + read('src/reconcile/findings.ts')
    const kinds = some(all(/^ {2}\| '([a-z-]+)'$/gm, code), 9)
    const further = all(/FindingKind \| '([a-z-]+)'/g, code)
    const repairs = (/type Repair = (.*)/.exec(code)?.[1] ?? '').split(' | ')
    expect(missingIn(page, [...kinds, ...further, ...repairs.map((r) => r.slice(1, -1))])).toEqual(
      [],
    )
  })

  it('every option is there with the default it has', () => {
    const exported = entries.flatMap((entry) =>
      all(/^[^']*from '(\..+)'/gm, read(entry)).map((from) =>
        join(dirname(entry), from.replace('.js', '.ts')),
      ),
    )
    const options = [...new Set(exported)].flatMap((path) =>
      [...read(path).matchAll(OPTION)].map(([, name, value]) => ({ name, value })),
    )
    some(
      options.map(({ name }) => String(name)),
      30,
    )
    const lines = everything.split('\n')
    const lacking = options.filter(({ name, value }) => {
      if (name === 'ordersPerSecond') return false // required
      const shown = Number(value?.replaceAll('_', '')).toLocaleString('en-US')
      return !lines.some((line) => new RegExp(`\\b${name}\\b`).test(line) && line.includes(shown))
    })
    expect(lacking).toEqual([])
  })

  it('orders.md has every table, idempotency.md the SQL that is printed', () => {
    expect(missingIn(read('docs/orders.md'), Object.values(tablesOf()))).toEqual([])
    expect(read('docs/idempotency.md')).toContain(IdempotencyGuard.sql('mysql'))
  })
})

const isField = (word: string) => !['HSET', 'ZADD', 'PEXPIREAT', 'DEL', 'stopped'].includes(word)

/** What a constructor checks, with its default. */
const OPTION = /option\(\s*o\.\w+,\s*'(\w+)',\s*([\d_]+),/g
