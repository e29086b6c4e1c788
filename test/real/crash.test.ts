import { describe, expect, test } from 'vitest'
import { play } from '../chaos/play.js'
import type { Scenario } from '../chaos/scenario.js'
import { consumersKilled } from '../chaos/scenarios/brokers.js'
import { sharedServer } from '../harness/databases.js'
import { until } from '../harness/net.js'
import { crowd, expectWhole, openSale, ref, users } from '../suites/crash/sale.js'

/** Step and how-manieth time: what comes after a commit may come only once, for all orders together. */
const STEPS = [
  'deduct:before@2',
  'deduct:sent@2',
  'deduct:after@2',
  'send:before@2',
  'send:after@2',
  'confirm:before@2',
  'confirm:inside@1',
  'confirm:after@1',
  'move:before@1',
  'move:after@1',
  'delivered:before@1',
  'delivered:after@1',
  'ack:before@1',
] as const

describe.each([
  ['mariadb', STEPS],
  ['postgres', ['deduct:sent@2', 'confirm:inside@1', 'confirm:after@1']],
] as const)('kill -9 on %s', (kind, steps) => {
  test.each(steps)('V3: at %s, then a restart: 0 lost, 0 doubled', async (step) => {
    const sale = await openSale(kind, 12)
    try {
      const doomed = await sale.openShop({ fault: step })
      const answers = crowd(sale, users(20), 3)
      answers.catch(() => {}) // expectWhole hears it; until then a failed step must be told first
      await until(`the shop dies at ${step}`, () => !doomed.process.isAlive(), 20_000)
      await sale.openShop()
      await expectWhole(sale, await answers, 12)
    } finally {
      await sale.close()
    }
  })
})

describe('kill -9 in mid-burst', () => {
  test.each([
    ['one', 1],
    ['all', 2],
  ] as const)('V3: of %s of two processes: 0 lost, 0 doubled', async (_, victims) => {
    const sale = await openSale('mariadb', 300)
    try {
      await Promise.all([sale.openShop(), sale.openShop()])
      const answers = crowd(sale, users(3_000), 100)
      await until(
        'the burst is under way',
        async () => (await sale.stock.numbers(ref)).available < 200,
        20_000,
      )
      for (const shop of sale.shops.slice(0, victims)) shop.process.kill('SIGKILL')
      await Promise.all(Array.from({ length: victims }, () => sale.openShop()))
      await expectWhole(sale, await answers, 300)
    } finally {
      await sale.close()
    }
  })
})

test('V3: failed sends, repeated clicks and killed consumers, over Redis streams: difference 0', async () => {
  const scenario: Scenario = { ...consumersKilled, needs: { queue: 'redis-streams' } }
  const ground = { db: 'mariadb', database: await sharedServer('mariadb') } as const
  const verdict = await play(scenario, ground, { units: 200, buyers: 1_000 })
  expect(verdict.breaches, JSON.stringify(verdict)).toEqual([])
}, 300_000)
