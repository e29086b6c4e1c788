/** `npm run chaos -- [scenario]`: whole sales on real servers while something is broken. */
import { parseArgs } from 'node:util'
import type { QueueAddress } from '../test/harness/queues.js'
import type { Server } from '../test/harness/services/server.js'
import { startKafka, startMariadb, startPostgres, startRocketmq } from '../test/harness/services.js'
import {
  besiegedSale,
  brokerOutage,
  type Disturbance,
  killedConsumers,
  type SiegeFigures,
} from '../test/suites/crash/sale.js'
import { provision } from './provision.js'

/** The broker of a run, and how each sale gets a topic of its own: what one leaves behind is no order of the next. */
interface Broker extends Pick<Server, 'kill' | 'restart' | 'stop'> {
  queue(name: string): Promise<QueueAddress>
}

const BROKERS: Readonly<Record<string, () => Promise<Broker>>> = {
  async rocketmq() {
    const broker = await startRocketmq()
    const queue = async (topic: string): Promise<QueueAddress> => {
      const group = `${topic}-workers`
      await broker.createTopic(topic, { type: 'FIFO' })
      await broker.createGroup(group)
      return { kind: 'rocketmq', endpoints: broker.endpoints, topic, group }
    }
    return Object.assign(broker, { queue })
  },
  async kafka() {
    const broker = await startKafka()
    const queue = async (topic: string): Promise<QueueAddress> => {
      await broker.createTopic(topic, { partitions: 4 })
      return { kind: 'kafka', brokers: broker.brokers, topic, group: `${topic}-workers` }
    }
    return Object.assign(broker, { queue })
  },
}

interface Sizes {
  readonly units: number
  readonly buyers: number
  readonly outageMs: number
}

const SCENARIOS: Readonly<Record<string, (broker: Broker, sizes: Sizes) => Disturbance>> = {
  /** 10 % repeated clicks, 5 % failed sends of all three kinds, consumers killed (-9) at random. */
  'consumers-killed': (_, sizes) => killedConsumers(sizes),
  'broker-killed': (broker) => brokerOutage(broker, 'SIGKILL', 1_000),
  'broker-frozen': (broker, { outageMs }) => brokerOutage(broker, 'SIGSTOP', outageMs),
}

const HELP = `npm run chaos -- [scenario] [options]

Scenarios (all of them unless one is named), each with 10 % repeated clicks and 5 % failed sends:
  consumers-killed   four consumers die by kill -9 in mid-sale
  broker-killed      the broker dies by kill -9 and is started again
  broker-frozen      the broker stands still (SIGSTOP)

  --queue rocketmq|kafka      default rocketmq
  --db mariadb|postgres       default mariadb
  --runs N                    of each scenario, default 1
  --buyers N --units N        of consumers-killed, default 45,455 (50,000 clicks) and 1,000
  --outage MS                 of broker-frozen, default 20,000
  --json                      only the last line

Starts the real servers it needs and ends them. The last line is JSON. Exit code 1 when a unit was sold
twice, an order was lost or the triangle differs in any run.`

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    queue: { type: 'string', default: 'rocketmq' },
    db: { type: 'string', default: 'mariadb' },
    runs: { type: 'string', default: '1' },
    buyers: { type: 'string', default: '45455' },
    units: { type: 'string', default: '1000' },
    outage: { type: 'string', default: '20000' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
})

function refuse(what: string): never {
  console.error(`${what}\n\n${HELP}`)
  process.exit(2)
}

function count(name: 'runs' | 'buyers' | 'units' | 'outage'): number {
  const number = Number(values[name])
  if (Number.isInteger(number) && number > 0) return number
  return refuse(`--${name} must be a whole number above 0, got ${values[name]}`)
}

if (values.help) {
  console.log(HELP)
  process.exit(0)
}
const { queue, db, json } = values
const sizes = { units: count('units'), buyers: count('buyers'), outageMs: count('outage') }
const runs = count('runs')
const startBroker = BROKERS[queue] ?? refuse(`--queue must be rocketmq or kafka, got ${queue}`)
if (db !== 'mariadb' && db !== 'postgres') refuse(`--db must be mariadb or postgres, got ${db}`)
const names = positionals.length > 0 ? positionals : Object.keys(SCENARIOS)
for (const name of names) if (!SCENARIOS[name]) refuse(`there is no scenario ${name}`)

provision(['core', 'brokers'])
const log = json ? () => {} : console.log
const results: ({ scenario: string; run: number } & (SiegeFigures | { fault: string }))[] = []
const [broker, server] = await Promise.all([
  startBroker(),
  db === 'mariadb' ? startMariadb() : startPostgres(),
])
try {
  for (let run = 1; run <= runs; run++)
    for (const scenario of names) {
      const address = await broker.queue(`${scenario}-${run}`)
      const disturbance = (SCENARIOS[scenario] as (typeof SCENARIOS)[string])(broker, sizes)
      const begun = performance.now()
      try {
        results.push({ scenario, run, ...(await besiegedSale(db, address, disturbance, server)) })
      } catch (error) {
        results.push({ scenario, run, fault: error instanceof Error ? error.message : `${error}` })
      }
      const seconds = ((performance.now() - begun) / 1_000).toFixed(1)
      log(`${JSON.stringify(results.at(-1))} ${seconds} s`)
    }
} finally {
  await Promise.all([broker.stop(), server.stop()])
}
const faults = results.filter((r) => 'fault' in r).length
console.log(
  JSON.stringify({ queue, db, runs: results.length, exact: results.length - faults, results }),
)
process.exitCode = faults > 0 ? 1 : 0
