import { ask, canHandOver, guard, handOver, rebuild, reconcile, relay } from './acts.js'
import { atRest, type Breach } from './invariants.js'
import { readLedger } from './ledger.js'
import { settleMoney } from './money-acts.js'
import { moneyAtRest } from './money-laws.js'
import type { World } from './world.js'

const ROUNDS = 6

/** All that a round may have changed. */
function standing({ db, store, broker, money, channels }: World): string {
  const { records, tombstones, topUps, ...numbers } = readLedger(store) ?? NOTHING
  const rows = [...db.rows.values()].map((row) => [row.orderNo, row.status])
  const payments = [...money.payments.values()].map((p) => [p.paymentId, p.status, p.refundedMinor])
  const waiting = [broker.messages, db.owed, ...channels.map((c) => c.outgoing)].map(sizeOf)
  return JSON.stringify([
    numbers,
    [...records],
    [...tombstones],
    [...topUps],
    rows,
    payments,
    waiting,
  ])
}

const NOTHING = { records: [], tombstones: [], topUps: [] }
const sizeOf = (of: { readonly size: number } | { readonly length: number }) =>
  'size' in of ? of.size : of.length

function broken({ db, store, money, channels, watch, guarded, control }: World): Breach | null {
  const ledger = readLedger(store)
  if (guarded && control.isOpen !== ledger?.open)
    return { rule: 'I15', what: `by the row it is ${control.isOpen ? 'open' : 'stopped'}` }
  if (guarded && control.isOurs) return { rule: 'rest', what: 'the library has left it stopped' }
  return atRest(db, ledger, watch.told) ?? moneyAtRest(db, money, channels)
}

/** No fault any more: everything is delivered, relayed, closed and repaired. Then what must hold at rest is looked at. */
export async function comeToRest(world: World): Promise<void> {
  world.note('', '— no more faults; all comes to rest —')
  world.resting = true
  await world.drain()
  let before = ''
  for (let round = 0; round < ROUNDS && !world.breach; round++) {
    await world.clock.jump(660_000)
    if (world.guarded) {
      guard(world, 'relay')
      await world.drain()
    }
    if (!readLedger(world.store)) {
      rebuild(world, false)
      await world.drain()
    }
    relay(world)
    await world.drain()
    if (canHandOver(world)) handOver(world, world.broker.messages.length)
    await world.drain()
    await settleMoney(world)
    for (const orderNo of world.queued.keys()) if (!world.db.rows.has(orderNo)) ask(world, orderNo)
    await world.drain()
    reconcile(world)
    await world.drain()
    const done = world.broker.messages.length === 0 && world.db.owed.size === 0
    if (done && !broken(world)) return
    const now = standing(world)
    if (now === before) break
    before = now
  }
  world.breach ??= broken(world)
}
