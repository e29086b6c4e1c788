/** `npm run load -- l1|l2|l3`: what a layer, the chain, and the whole sale bear, in steps of concurrency. */
import { parseArgs } from 'node:util'
import { isExact, type Level, type LevelOptions, type Step } from './load/step.js'
import { provision } from './provision.js'

const LEVELS = ['l1', 'l2', 'l3'] as const

const HELP = `npm run load -- ${LEVELS.join('|')} [options]

  l1   the deduct script alone, the limit of one key: a script a request, the library's batches, and those over four keys
  l2   the chain without a database, in this process: gates, sold-out mark, limiter, token, deduction, queue
  l3   everything: POSTs to two processes of the Express example, orders in the database, reconciled

  --steps 50,200,500,1000     callers at once, one step after the other
  --requests N                of each step, default 50,000
  --db mariadb|postgres       of l3, default mariadb
  --json                      only the last line

Starts the real servers it needs on free loopback ports and ends them. The crowd shares the machine with them: figures are
those of all together. The last line is JSON: each step's requests a second, latency, what each layer refused, and whether
it was exact. Exit code 1 when a unit was sold twice, an order was lost or the numbers differ in any step.`

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    steps: { type: 'string', default: '50,200,500,1000' },
    requests: { type: 'string', default: '50000' },
    db: { type: 'string', default: 'mariadb' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
})

function refuse(what: string): never {
  console.error(`${what}\n\n${HELP}`)
  process.exit(2)
}

function whole(text: string, name: string, most: number): number {
  const number = Number(text)
  if (Number.isInteger(number) && number > 0 && number <= most) return number
  return refuse(`--${name} must be of whole numbers from 1 to ${most}, got ${text}`)
}

/** One line of the table: what a person compares. */
function row({ callers, way, perSecond, latencyMs, layers, exactness }: Step) {
  const rates = Object.entries(layers).map(([name, { rate }]) => [
    name,
    `${(rate * 100).toFixed(1)} %`,
  ])
  return {
    callers,
    ...(way ? { way } : {}),
    'req/s': perSecond,
    ...latencyMs,
    ...Object.fromEntries(rates),
    ...exactness,
  }
}

if (values.help) {
  console.log(HELP)
  process.exit(0)
}
const [name, ...more] = positionals
const level = LEVELS.find((known) => known === name)
if (!level || more.length > 0) refuse(`name one of: ${LEVELS.join(', ')}`)
const { db, json } = values
if (db !== 'mariadb' && db !== 'postgres') refuse(`--db must be mariadb or postgres, got ${db}`)
const options: LevelOptions = {
  db,
  requests: whole(values.requests, 'requests', 10_000_000),
  steps: values.steps.split(',').map((step) => whole(step, 'steps', 10_000)),
  log: json ? () => {} : console.log,
}

provision()
const modules = { l1: './load/l1.ts', l2: './load/l2.ts', l3: './load/l3.ts' } as const
const module = (await import(new URL(modules[level], import.meta.url).href)) as Record<
  string,
  (o: LevelOptions) => Promise<Level>
>
const { steps, ratios } = await (module[level] as (o: LevelOptions) => Promise<Level>)(options)
const exact = steps.every(isExact)
if (!json) {
  console.log('latency in ms; of each layer the share that it refused')
  console.table(steps.map(row))
  if (ratios) console.table(ratios)
}
const of = level === 'l3' ? { level, db } : { level }
console.log(JSON.stringify({ ...of, requests: options.requests, exact, ratios, steps }))
process.exitCode = exact ? 0 : 1
