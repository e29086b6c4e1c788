/** `npm run simulate`: the library's own code over simulated services, one run for each seed. */
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { FlashSale, Payments, TriangleReconciler } from '../src/index.js'
import * as generated from '../src/redis/scripts.generated.js'
import {
  type Fengari,
  fengariVm,
  flashSaleIn,
  type Simulated,
  simulate,
} from '../src/testing/index.js'
import { BROKEN } from '../src/testing/sim/broken.js'
import { Choices } from '../src/testing/sim/choices.js'
import { runOnce } from '../src/testing/sim/run.js'

const HELP = `npm run simulate -- [options]

Runs whole sales of two units with the library's own code and scripts over a simulated Redis, queue, database, payment
channels and clock, with delays, lost answers, duplicates, crashes and failovers, and checks the invariants of
docs/simulate.md at every step.

  --seeds N       runs, default 500
  --from S        the first seed, default 1
  --jobs J        processes that share the seeds, default 1
  --seed S        one run, with its whole trace
  --broken ID     the library with one rule broken (all: each of them, one after the other) must be caught
  --json          only the last line

The last line is JSON. A breach ends it: seed and shortest trace are printed, exit code 1. With --broken it is 1 when a
broken rule was not noticed. Ctrl-C ends after the run that is under way.`

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '500' },
    from: { type: 'string', default: '1' },
    jobs: { type: 'string', default: '1' },
    seed: { type: 'string' },
    broken: { type: 'string' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
})

function refuse(what: string): never {
  console.error(`${what}\n\n${HELP}`)
  process.exit(2)
}

function count(name: 'seeds' | 'from' | 'seed' | 'jobs', least: number): number {
  const number = Number(values[name])
  if (Number.isInteger(number) && number >= least && number < 2 ** 32) return number
  return refuse(`--${name} must be a whole number from ${least}, got ${values[name]}`)
}

if (values.help) {
  console.log(HELP)
  process.exit(0)
}
const seeds = count('seeds', 1)
const from = count('from', 0)
const jobs = Math.min(count('jobs', 1), seeds, 64)
const log = values.json ? () => {} : console.log

const abort = new AbortController()
process.once('SIGINT', () => {
  log('ends after this run; once more to leave at once')
  abort.abort()
})
process.once('SIGTERM', () => abort.abort())

const world = {
  sale: flashSaleIn({ FlashSale, TriangleReconciler, Payments }),
  lua: fengariVm(createRequire(import.meta.url)('fengari') as Fengari),
  scripts: Object.values(generated).filter((script) => typeof script === 'object'),
}
const begun = performance.now()
const seconds = () => Number(((performance.now() - begun) / 1_000).toFixed(1))

/** Progress about every two seconds. */
function progress(what: string): (seed: number) => void {
  let next = performance.now() + 2_000
  return (seed) => {
    if (performance.now() < next) return
    next = performance.now() + 2_000
    log(`${what}seed ${seed}, ${seconds()} s`)
  }
}

if (values.seed !== undefined) await replay(count('seed', 0))
else if (values.broken !== undefined) await breakRules(values.broken)
else if (jobs > 1) await share()
else await search()

async function search(): Promise<void> {
  const { signal } = abort
  conclude(await simulate({ ...world, seeds, from, signal, onSeed: progress('') }))
}

function conclude({ seeds, steps, breach }: Simulated): void {
  if (breach)
    log(`${breach.trace.join('\n')}\n\nseed ${breach.seed} breaks ${breach.rule}: ${breach.what}`)
  finish({ from, seeds, steps, breaches: breach ? 1 : 0, breach }, !breach)
}

/** Each process runs seeds that follow one another. The first breach ends the others. */
async function share(): Promise<void> {
  const each = Math.ceil(seeds / jobs)
  const parts = Array.from({ length: jobs }, (_, i) => ({
    first: from + i * each,
    seeds: Math.min(each, seeds - i * each),
  })).filter((part) => part.seeds > 0)
  const done = await Promise.all(parts.map(runPart))
  conclude({
    seeds: done.reduce((sum, result) => sum + result.seeds, 0),
    steps: done.reduce((sum, result) => sum + result.steps, 0),
    breach: done.find((result) => result.breach !== null)?.breach ?? null,
  })
}

async function runPart(o: { first: number; seeds: number }): Promise<Simulated> {
  const self = fileURLToPath(import.meta.url)
  const args = [self, '--json', '--from', `${o.first}`, '--seeds', `${o.seeds}`]
  const child = spawn(process.execPath, [...process.execArgv, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  // Ctrl-C has reached it too, by another signal.
  abort.signal.addEventListener('abort', () => child.kill('SIGTERM'))
  let output = ''
  for await (const text of child.stdout) output += text
  const result = JSON.parse(output) as Simulated
  log(`seeds from ${o.first}: ${result.seeds} done, ${seconds()} s`)
  if (result.breach) abort.abort()
  return result
}

async function replay(seed: number): Promise<void> {
  const { trace, steps, breach } = await runOnce(world, Choices.ofSeed(seed, 120))
  log(trace.join('\n'))
  const why = breach ? { seed, rule: breach.rule, what: breach.what, trace } : null
  finish({ from: seed, seeds: 1, steps, breaches: breach ? 1 : 0, breach: why }, !breach)
}

async function breakRules(id: string): Promise<void> {
  const chosen = id === 'all' ? BROKEN : BROKEN.filter((broken) => broken.id === id)
  if (chosen.length === 0)
    refuse(`--broken must be all or one of ${BROKEN.map((b) => b.id).join(' ')}`)
  const caught: { id: string; seeds: number; by: string; steps: number }[] = []
  const missed: string[] = []
  for (const broken of chosen) {
    if (abort.signal.aborted) break
    const onSeed = progress(`${broken.id}: `)
    const { signal } = abort
    const run = await simulate({ ...world, broken, seeds, from, signal, onSeed, shrinkRuns: 300 })
    const { breach } = run
    if (!breach) {
      missed.push(broken.id)
      log(`| ${broken.id} | ${broken.rule} | not in ${run.seeds} | |`)
      continue
    }
    log(breach.trace.join('\n'))
    log(`${breach.what}\n| ${broken.id} | ${broken.rule} | ${run.seeds} | ${breach.rule} |\n`)
    caught.push({ id: broken.id, seeds: run.seeds, by: breach.rule, steps: breach.trace.length })
  }
  finish({ from, seeds, caught, missed }, missed.length === 0)
}

function finish(result: object, good: boolean): void {
  console.log(JSON.stringify({ ...result, seconds: seconds() }))
  process.exitCode = good ? 0 : 1
}
