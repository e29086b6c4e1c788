import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { play } from '../chaos/play.js'
import { appScenarios } from '../chaos/scenarios/app.js'
import type { DatabaseServer } from '../harness/services/server.js'
import { startMariadb, startPostgres } from '../harness/services.js'

/** Slow, so that there are clicks all the time while one process after the other is replaced. */
const SIZE = { units: 60, buyers: 100, concurrency: 8, pauseMs: 1_200, payWithinMs: 3_000 }
const KINDS = ['mariadb', 'postgres'] as const

describe('a sale whose processes are disturbed', () => {
  const servers = {} as Record<(typeof KINDS)[number], DatabaseServer>
  beforeAll(async () => {
    const started = await Promise.all([startMariadb(), startPostgres()])
    Object.assign(servers, { mariadb: started[0], postgres: started[1] })
  })
  afterAll(() => Promise.all(Object.values(servers).map((server) => server.stop())))

  // By turns on one and the other; `npm run chaos -- app` runs all of them on either.
  for (const [i, scenario] of appScenarios.entries()) {
    const db = KINDS[i % 2] as (typeof KINDS)[number]
    it(`${scenario.name} on ${db}: nothing is sold twice, lost or charged twice, and it goes on`, {
      timeout: 300_000,
    }, async () => {
      const size = scenario.name === 'app-overload' ? { buyers: 60 } : SIZE
      const verdict = await play(scenario, { db, database: servers[db] }, size)
      const { oversold, lost, doubleCharged, difference, breaches } = verdict
      expect(breaches, JSON.stringify(verdict)).toEqual([])
      expect({ oversold, lost, doubleCharged, difference }).toEqual({
        ...{ oversold: 0, lost: 0, doubleCharged: 0, difference: 0 },
      })
    })
  }
})
