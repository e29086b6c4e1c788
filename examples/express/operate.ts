/**
 * What an operator does, as a command (with the environment of server.ts):
 *
 *   npx tsx examples/express/operate.ts warm-up|open|stop|numbers [activity id]
 *
 * `warm-up` puts a demo activity on sale: 100 units of `phone` at 99.00, open for an hour from now.
 */
import { pathToFileURL } from 'node:url'
import type { Activity } from 'flash-sale-kit'
import { openShop } from './server.js'

export function demoActivity(activityId: string): Activity {
  return {
    activityId,
    version: 'v1',
    opensAt: Date.now() - 1_000,
    endsAt: Date.now() + 3_600_000,
    payWithinMs: 900_000,
    mode: 'queued',
    tokens: 'required',
    maxPerOrder: 1,
    skus: [{ skuId: 'phone', units: 100, priceMinor: 9_900, currency: 'CNY' }],
  }
}

const ACTS = ['warm-up', 'open', 'stop', 'numbers']

async function main([act = '', activityId = 'demo']: readonly string[]): Promise<number> {
  if (!ACTS.includes(act)) {
    console.error(`one of ${ACTS.join(', ')}`)
    return 2
  }
  const audit = { actor: process.env['USER'] ?? 'operator', reason: `operate.ts ${act}` }
  const shop = openShop(process.env)
  try {
    await shop.migrate()
    if (act === 'warm-up' && !(await shop.activities.load(activityId)))
      await shop.activities.save(demoActivity(activityId))
    if (act === 'warm-up') console.log(await shop.sale.warmUp(activityId, audit))
    if (act === 'open') console.log(await shop.sale.control(activityId, 'open', audit))
    if (act === 'stop') console.log(await shop.sale.control(activityId, 'stopped', audit))
    if (act === 'numbers')
      console.log(await shop.sale.stock.numbers({ activityId, skuId: 'phone' }))
    return 0
  } finally {
    await shop.close()
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  process.exitCode = await main(process.argv.slice(2))
