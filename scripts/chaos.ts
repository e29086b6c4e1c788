/** `npm run chaos -- [scenario…]`: whole sales on real servers while something is broken. */
import { parseArgs } from 'node:util'
import { BROKERS, type BrokerKind, openBroker } from '../test/chaos/broker-ground.js'
import { play } from '../test/chaos/play.js'
import { described, type Result, table } from '../test/chaos/report.js'
import type { Scenario, Size } from '../test/chaos/scenario.js'
import { PARTS } from '../test/chaos/scenarios/index.js'
import type { Ground } from '../test/chaos/stage.js'
import { startMariadb, startPostgres } from '../test/harness/services.js'
import { provision } from './provision.js'

const SCENARIOS = Object.values(PARTS).flat()

const HELP = `npm run chaos -- [scenario or part …] [options]

A sale of two shop processes on real servers, with two payment channels that lose answers; one click in ten is repeated. Something is
broken in the middle of it; afterwards the sale must go on by itself. Exit code 1 when in any run a unit was sold twice, an
order was lost, a buyer was charged twice, the triangle differs, a question had no answer, or nobody could buy again.

All scenarios, unless some are named; a part stands for all of its:
${Object.entries(PARTS)
  .map(([part, some]) => `\n${part}\n${some.map(helpOf).join('\n')}`)
  .join('\n')}

  --runs N                    of each scenario, default 1
  --db mariadb|postgres       default mariadb
  --queue rocketmq|kafka      the broker, default rocketmq
  --buyers N --units N        instead of each scenario's own
  --outage MS                 how long what is broken stays so, instead of each scenario's own
  --json                      only the last line, which is JSON

Starts the real servers it needs and ends them.`

function helpOf({ name, about, buyerSees }: Scenario): string {
  return `  ${name.padEnd(26)} ${about}\n  ${''.padEnd(26)} the buyer: ${buyerSees}`
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    queue: { type: 'string', default: 'rocketmq' },
    db: { type: 'string', default: 'mariadb' },
    runs: { type: 'string', default: '1' },
    buyers: { type: 'string' },
    units: { type: 'string' },
    outage: { type: 'string' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
})

function refuse(what: string): never {
  console.error(`${what}\n\n${HELP}`)
  process.exit(2)
}

function count(name: 'runs' | 'buyers' | 'units' | 'outage'): number | undefined {
  const text = values[name]
  const number = Number(text)
  if (text === undefined || (Number.isInteger(number) && number > 0))
    return text === undefined ? undefined : number
  return refuse(`--${name} must be a whole number above 0, got ${text}`)
}

function named(name: string): readonly Scenario[] {
  const found = PARTS[name] ?? SCENARIOS.filter((s) => s.name === name)
  return found.length > 0 ? found : refuse(`there is no scenario ${name}`)
}

if (values.help) {
  console.log(HELP)
  process.exit(0)
}
const { queue, db, json } = values
const kinds: readonly string[] = BROKERS
if (!kinds.includes(queue)) refuse(`--queue must be ${BROKERS.join(' or ')}, got ${queue}`)
if (db !== 'mariadb' && db !== 'postgres') refuse(`--db must be mariadb or postgres, got ${db}`)
const runs = count('runs') ?? 1
const size = sizeOf({ units: count('units'), buyers: count('buyers'), outageMs: count('outage') })
const chosen = positionals.length > 0 ? positionals.flatMap(named) : SCENARIOS
const withBroker = chosen.some((s) => s.needs?.queue === 'broker')

/** What was not asked for stays each scenario's own. */
function sizeOf(asked: Record<'units' | 'buyers' | 'outageMs', number | undefined>): Partial<Size> {
  return Object.fromEntries(Object.entries(asked).filter(([, n]) => n !== undefined))
}

async function once(scenario: Scenario, run: number, ground: Ground): Promise<Result> {
  const begun = performance.now()
  const seconds = () => Math.round((performance.now() - begun) / 100) / 10
  const about = { scenario: scenario.name, run }
  try {
    const verdict = await play(scenario, ground, size)
    return { ...about, seconds: seconds(), ...verdict }
  } catch (error) {
    return { ...about, seconds: seconds(), breaches: [String(error)] }
  }
}

provision(withBroker ? ['core', 'brokers'] : ['core'])
const log = json ? () => {} : console.log
const results: Result[] = []
const [broker, database] = await Promise.all([
  withBroker ? openBroker(queue as BrokerKind) : undefined,
  db === 'mariadb' ? startMariadb() : startPostgres(),
])
try {
  const ground = { db, database, ...(broker ? { broker } : {}) } as const
  for (let run = 1; run <= runs; run++)
    for (const scenario of chosen) {
      results.push(await once(scenario, run, ground))
      log(described(results.at(-1) as Result))
    }
} finally {
  await Promise.all([broker?.stop(), database.stop()])
}
if (runs > 1) log(`\nmedian and most of ${runs} runs:\n\n${table(results)}\n`)
const exact = results.filter((r) => r.breaches.length === 0).length
console.log(JSON.stringify({ queue, db, runs: results.length, exact, results }))
process.exitCode = exact === results.length ? 0 : 1
