import { ask, canHandOver, handOver, rebuild } from './acts.js'
import { atRest } from './invariants.js'
import { readLedger } from './ledger.js'
import type { World } from './world.js'

const ROUNDS = 6

/** All that a round may have changed. */
function standing({ db, store, broker }: World): string {
  const { records, tombstones, ...numbers } = readLedger(store) ?? { records: [], tombstones: [] }
  const rows = [...db.rows.values()].map((row) => [row.orderNo, row.status])
  const messages = broker.messages.length
  return JSON.stringify([numbers, [...records], [...tombstones], rows, messages, db.owed.size])
}

/** No fault any more: everything is delivered, relayed, closed and repaired. Then what must hold at rest is looked at. */
export async function comeToRest(world: World): Promise<void> {
  world.note('', '— no more faults; all comes to rest —')
  world.resting = true
  await world.drain()
  let before = ''
  for (let round = 0; round < ROUNDS && !world.breach; round++) {
    if (!readLedger(world.store)) {
      rebuild(world, false)
      await world.drain()
    }
    await world.clock.jump(660_000)
    world.start('relay', 'relays', () => world.of('relay').sale.relay())
    await world.drain()
    if (canHandOver(world)) handOver(world, world.broker.messages.length)
    await world.drain()
    for (const orderNo of world.queued) if (!world.db.rows.has(orderNo)) ask(world, orderNo)
    await world.drain()
    world.start('relay', 'reconciles', () => world.of('relay').sale.reconcile())
    await world.drain()
    const done = world.broker.messages.length === 0 && world.db.owed.size === 0
    if (done && !atRest(world.db, readLedger(world.store), world.told)) return
    const now = standing(world)
    if (now === before) break
    before = now
  }
  world.breach ??= atRest(world.db, readLedger(world.store), world.told)
}
