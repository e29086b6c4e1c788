import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openBroker } from '../chaos/broker-ground.js'
import { play } from '../chaos/play.js'
import type { Size } from '../chaos/scenario.js'
import { brokerScenarios } from '../chaos/scenarios/brokers.js'
import type { Broker } from '../chaos/stage.js'
import { sharedServer } from '../harness/databases.js'

/** `npm run chaos -- brokers` plays all on both, in full size. */
const SIZES: Readonly<Record<string, Partial<Size>>> = {
  'consumers-killed': { units: 200, buyers: 1_000, concurrency: 50 },
  'broker-killed': { units: 200, buyers: 400 },
  'broker-frozen': { units: 200, buyers: 400, outageMs: 8_000 },
  'broker-slow': { units: 200, buyers: 400, outageMs: 3_000 },
  'broker-cut': { units: 200, buyers: 400 },
  'broker-replies-lost': { units: 200, buyers: 400, outageMs: 3_000 },
}

const ENDINGS = ['consumers-killed', 'broker-killed', 'broker-frozen']

describe.each([
  ['rocketmq', 'mariadb', ['broker-cut']],
  ['kafka', 'postgres', ['broker-slow', 'broker-replies-lost']],
] as const)('%s and %s', (queue, db, network) => {
  const names: readonly string[] = [...ENDINGS, ...network]
  const played = brokerScenarios.filter(({ name }) => names.includes(name))
  const named = played.map((scenario) => [scenario.name, scenario] as const)

  let broker: Broker
  beforeAll(async () => {
    broker = await openBroker(queue)
  })
  afterAll(() => broker?.stop())

  test.each(named)(
    'V3: %s in mid-sale, failed sends, repeated clicks: difference 0',
    async (name, scenario) => {
      const database = await sharedServer(db)
      const verdict = await play(scenario, { db, database, broker }, SIZES[name])
      expect(verdict.breaches).toEqual([])
    },
    300_000,
  )
})
