import { parseArgs } from 'node:util'

const QUEUES = ['memory', 'redis-streams', 'rocketmq', 'kafka'] as const
const DBS = ['sqlite', 'mariadb', 'mysql', 'postgres'] as const

export interface DemoOptions {
  readonly requests: number
  readonly stock: number
  readonly duplicates: number
  readonly real: boolean
  readonly queue: (typeof QUEUES)[number]
  readonly db: (typeof DBS)[number]
  readonly json: boolean
}

const HELP = `npm run demo -- [options]

Sells --stock units to a crowd of --requests and proves afterwards that each unit was sold once.

  --requests N      requests, repeats included (50000)
  --stock N         units on sale (1000)
  --duplicates F    share of the requests that repeat an earlier one (0.1)
  --real            a real redis-server and a real database instead of ioredis-mock and SQLite
  --queue Q         memory (the default), redis-streams, rocketmq or kafka; all but memory with --real
  --db D            sqlite, mariadb, mysql or postgres (mariadb with --real, else sqlite)
  --json            the last line is one JSON object
  --help

Exit code 1 when anything was oversold or lost, 2 for a bad option.`

/** Prints the help, or what is wrong with an option, and ends the process; else the options. */
export function demoOptions(argv: readonly string[]): DemoOptions {
  const { values } = parse(argv)
  if (values.help) {
    console.log(HELP)
    process.exit(0)
  }
  const real = values.real ?? false
  const queue = choice('queue', values.queue ?? 'memory', QUEUES)
  const db = choice('db', values.db ?? (real ? 'mariadb' : 'sqlite'), DBS)
  if (!real && queue !== 'memory') refuse(`--queue ${queue} needs --real`)
  if (!real && db !== 'sqlite') refuse(`--db ${db} needs --real`)
  return {
    requests: number('requests', values.requests ?? '50000', 1, 10_000_000, true),
    stock: number('stock', values.stock ?? '1000', 1, 1_000_000, true),
    duplicates: number('duplicates', values.duplicates ?? '0.1', 0, 0.99, false),
    real,
    queue,
    db,
    json: values.json ?? false,
  }
}

function parse(argv: readonly string[]) {
  const text = { type: 'string' } as const
  const flag = { type: 'boolean' } as const
  const options = {
    requests: text,
    stock: text,
    duplicates: text,
    queue: text,
    db: text,
    real: flag,
    json: flag,
    help: flag,
  }
  try {
    return parseArgs({ args: [...argv], options })
  } catch (error) {
    return refuse(error instanceof Error ? error.message : String(error))
  }
}

function number(name: string, text: string, min: number, max: number, whole: boolean): number {
  const value = Number(text)
  const fits =
    text.trim() !== '' && value >= min && value <= max && (!whole || Number.isInteger(value))
  return fits
    ? value
    : refuse(
        `--${name} must be a ${whole ? 'whole ' : ''}number from ${min} to ${max}, got '${text}'`,
      )
}

function choice<T extends string>(name: string, value: string, values: readonly T[]): T {
  const found = values.find((v) => v === value)
  return found ?? refuse(`--${name} must be one of ${values.join(', ')}, got '${value}'`)
}

function refuse(why: string): never {
  console.error(`${why}\n(--help shows the options)`)
  process.exit(2)
}
