import type { Need } from '../../test/harness/binaries.js'
import { provision } from '../provision.js'
import type { Measured } from './measure.js'

const NAMES = ['admission', 'latency', 'confirm', 'reconcile', 'http', 'rocketmq'] as const

const HELP = `npm run bench -- ${NAMES.join('|')} [--json]

Starts the real servers it needs on free loopback ports, measures, and ends them.
What is compared runs in one go and by turns, and the figures are medians of the
rounds: on a machine that is shared or of another make the ratios still hold.

The last line is JSON: {"bench", "ratios", "medians"}. With --json it is the only one.`

/** What a bench needs beyond Redis and databases. */
const MORE: { readonly [bench in (typeof NAMES)[number]]?: readonly Need[] } = {
  http: ['load'],
  rocketmq: ['brokers'],
}

type Bench = (o: { readonly log: (line: string) => void }) => Promise<Measured>

async function main(args: readonly string[]): Promise<number> {
  const [asked, ...more] = args.filter((arg) => arg !== '--json')
  if (asked === '--help' || asked === '-h') {
    console.log(HELP)
    return 0
  }
  const name = NAMES.find((known) => known === asked)
  if (!name || more.length > 0) {
    console.error(`name one of: ${NAMES.join(', ')}`)
    return 2
  }
  const file = new URL(`./${name}.ts`, import.meta.url)
  provision(['core', ...(MORE[name] ?? [])])
  const { run } = (await import(file.href)) as { readonly run: Bench }
  const quiet = args.includes('--json')
  const { ratios, medians } = await run({ log: quiet ? () => {} : console.log })
  if (!quiet) for (const figures of [medians, ratios]) console.table(figures)
  console.log(JSON.stringify({ bench: name, ratios, medians }))
  return 0
}

process.exitCode = await main(process.argv.slice(2))
