import type { OrderRow } from '../../core/ports.js'
import { SIM_REF } from './ledger.js'
import { AUDIT, type Name, short } from './names.js'
import type { SimDeduct } from './sale.js'
import type { World } from './world.js'

/** A buyer's request reaches a process; `how` for the trace. */
export function deduct(world: World, app: Name, request: SimDeduct, how: string): void {
  const { process, sale } = world.of(app)
  const { orderNo } = request
  world.start(app, `buyer ${request.userId} ${how}: ${short(orderNo)}`, async () => {
    const { status } = await sale.stock.deduct(request)
    if (process.dead) return
    world.note(app, `answers ${short(orderNo)}: ${status}`)
    if (status === 'reserved' || status === 'unknown') world.queued.add(orderNo)
    if (status === 'try-again') {
      world.queued.delete(orderNo)
      world.tryAgain.add(orderNo)
    }
    if (status === 'rewound') await stopBy(world, app)
  })
}

/** An operator stops the sale. */
export function stop(world: World): void {
  world.start('app2', 'an operator stops the sale', () => stopBy(world, 'app2'))
}

async function stopBy(world: World, app: Name): Promise<void> {
  const { process, sale } = world.of(app)
  const { opened } = world.control
  await sale.control(SIM_REF.activityId, 'stopped', AUDIT)
  if (process.dead || world.control.opened !== opened) return
  world.note(app, 'acknowledges the stop')
  world.stopped = opened
  // A rebuild under way may have opened the durable row before, and tell Redis only now.
  world.stopForgotten = world.busy('relay', 'rebuilds')
}

/** The payment of a confirmed order arrives. */
export function pay(world: World, row: OrderRow): void {
  const { sale, write } = world.of('relay')
  const { orderNo } = row
  world.start('relay', `hears that ${short(orderNo)} is paid`, async () => {
    if (await write('pay', [orderNo], () => world.db.pay(orderNo)))
      await sale.stock.move([{ to: 'paid', reservation: row }])
  })
}

/** The payment deadline of a confirmed order passes: the database first, then Redis. */
export function closeUnpaid(world: World, row: OrderRow): void {
  const { sale, orders } = world.of('relay')
  const { orderNo } = row
  const redisFirst = world.o.broken?.redisFirst ?? false
  const release = () => sale.stock.move([{ to: 'released', reservation: row, reason: 'unpaid' }])
  world.start('relay', `closes unpaid ${short(orderNo)}`, async () => {
    if (redisFirst) await release()
    const [verdict] = await orders.closeUnpaid([orderNo], 'unpaid')
    if (verdict?.status !== 'closed') return
    if (!redisFirst) await release()
    await orders.released([orderNo])
  })
}

/** There is something for a relay. */
export function hasOwed({ store, db }: World): boolean {
  return db.owed.size > 0 || Number(store.call('ZCARD', ['seckill:owed:{a}'])) > 1
}

export function canHandOver(world: World): boolean {
  return (
    world.broker.messages.length > 0 &&
    world.of('worker').queue.ready &&
    !world.busy('worker', 'takes')
  )
}

/** Hands messages to the worker; they stay in the queue until it acknowledges them. */
export function handOver(world: World, count: number, from = 0): void {
  const { process, queue } = world.of('worker')
  const taken = world.broker.messages.slice(from, from + count)
  const batches = taken.map((message) => message.batch)
  const numbers = batches.flatMap((b) => b.reservations.map((r) => short(r.orderNo)))
  const attempt = 1 + Math.max(...taken.map((message) => message.attempt++))
  world.start('worker', `takes ${taken.length} messages: ${numbers.join(' ')}`, async () => {
    const signal = new AbortController().signal
    const handled = await queue.consuming?.({ batches, attempt, signal })
    if (process.dead) return
    const gone = taken.filter((_, i) => {
      const said = typeof handled === 'string' ? handled : handled?.[i]
      return said === 'ack' || said === 'dead'
    })
    world.broker.messages = world.broker.messages.filter((message) => !gone.includes(message))
  })
}

export function ask(world: World, orderNo: string): void {
  const userId = orderNo[9]?.toUpperCase() ?? ''
  world.start('app1', `asks for the result of ${short(orderNo)}`, () =>
    world.of('app1').sale.result({ ...SIM_REF, userId, orderNo }),
  )
}

export function rebuild(world: World, reopen: boolean): void {
  world.start('relay', 'rebuilds Redis', () =>
    world.of('relay').sale.rebuild(SIM_REF.activityId, AUDIT, { waitMs: 0, reopen }),
  )
}
