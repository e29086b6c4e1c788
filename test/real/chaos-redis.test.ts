import { afterAll, beforeAll, expect, test } from 'vitest'
import { play } from '../chaos/play.js'
import { redisScenarios } from '../chaos/scenarios/redis.js'
import type { DatabaseServer } from '../harness/services/server.js'
import { startMariadb } from '../harness/services.js'

/** `npm run chaos -- redis` plays the same in full size. */
const SMALL = { units: 120, buyers: 200, payWithinMs: 3_000, outageMs: 2_000 }

let database: DatabaseServer
beforeAll(async () => {
  // One commit of many sales at a time; what survives a machine's power cut is not asked here.
  database = await startMariadb({ flush: 2 })
})
afterAll(() => database?.stop())

const named = redisScenarios.map((scenario) => [scenario.name, scenario] as const)

test.each(named)(
  'S10 V4: %s in mid-sale: nothing oversold, lost or charged twice, and the sale goes on by itself',
  async (_, scenario) => {
    const verdict = await play(scenario, { db: 'mariadb', database }, SMALL)
    expect(verdict.breaches).toEqual([])
    expect(verdict).toMatchObject({ oversold: 0, lost: 0, doubleCharged: 0, difference: 0 })
  },
  300_000,
)
