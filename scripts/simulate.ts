/** `npm run simulate`: the library's own code over simulated services, one run for each seed. */
import { createRequire } from 'node:module'
import { parseArgs } from 'node:util'
import { FlashSale, TriangleReconciler } from '../src/index.js'
import * as generated from '../src/redis/scripts.generated.js'
import { type Fengari, fengariVm, flashSaleIn, simulate } from '../src/testing/index.js'
import { BROKEN } from '../src/testing/sim/broken.js'
import { Choices } from '../src/testing/sim/choices.js'
import { short } from '../src/testing/sim/names.js'
import { runOnce } from '../src/testing/sim/run.js'

const HELP = `npm run simulate -- [options]

Runs whole sales of two units with the library's own code and scripts over a simulated Redis, queue and database, with
delays, lost answers, duplicates, crashes and failovers, and checks the invariants of docs/simulate.md at every step.

  --seeds N       runs, default 500
  --from S        the first seed, default 1
  --seed S        one run, with its whole trace
  --broken ID     the library with one rule broken (all: each of them, one after the other) must be caught
  --json          only the last line

The last line is JSON. A breach ends it: seed and shortest trace are printed, exit code 1. With --broken it is 1 when a
broken rule was not noticed. Ctrl-C ends after the run that is under way.`

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '500' },
    from: { type: 'string', default: '1' },
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

function count(name: 'seeds' | 'from' | 'seed', least: number): number {
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
const log = values.json ? () => {} : console.log

const abort = new AbortController()
process.once('SIGINT', () => {
  log('ends after this run; once more to leave at once')
  abort.abort()
})

const world = {
  sale: flashSaleIn({ FlashSale, TriangleReconciler }),
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
else await search()

async function search(): Promise<void> {
  const { signal } = abort
  const result = await simulate({ ...world, seeds, from, signal, onSeed: progress('') })
  const { breach } = result
  if (breach)
    log(`${breach.trace.join('\n')}\n\nseed ${breach.seed} breaks ${breach.rule}: ${breach.what}`)
  finish(
    { from, seeds: result.seeds, steps: result.steps, breaches: breach ? 1 : 0, breach },
    !breach,
  )
}

async function replay(seed: number): Promise<void> {
  const { trace, steps, breach } = await runOnce(world, Choices.ofSeed(seed, 120))
  log(trace.join('\n'))
  const why = breach ? { seed, rule: breach.rule, what: short(breach.what), trace } : null
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
