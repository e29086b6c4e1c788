import type { OrderRow } from '../../core/order-book.js'
import { SIM_REF } from './ledger.js'
import { AUDIT, type Name } from './names.js'
import type { SimDeduct } from './sale.js'
import type { World } from './world.js'

/** A buyer's request reaches a process behind the gate, under a number of the host's own; `how` for the trace. */
export function deduct(world: World, app: Name, request: SimDeduct, how: string): void {
  const { process, sale } = world.of(app)
  const { orderNo, userId } = request
  world.start(app, `buyer ${userId} ${how}: ${orderNo}`, async () => {
    const { status } = await sale.stock.deduct(request)
    if (process.dead) return
    world.note(app, `answers ${orderNo}: ${status}`)
    if (status === 'reserved' || status === 'unknown') world.hears(request)
    if (status === 'try-again') {
      world.queued.delete(orderNo)
      world.tryAgain.add(orderNo)
    }
    if (status === 'rewound') await stopBy(world, app)
  })
}

/** A buyer's click. */
export function submit(world: World, app: Name, userId: string, quantity: number): void {
  const { process, sale } = world.of(app)
  const click = { ...SIM_REF, buyer: { userId, ip: '192.0.2.1' }, quantity }
  world.start(app, `buyer ${userId} clicks for ${quantity}`, async () => {
    const answer = await sale.submit(click)
    if (process.dead) return
    const { orderNo } = { orderNo: '', ...answer }
    if (orderNo !== '') world.names.add(orderNo, userId)
    world.note(app, `answers buyer ${userId}: ${answer.status} ${orderNo}`)
    if (answer.status === 'queued' || answer.status === 'unknown')
      world.hears({ orderNo: answer.orderNo, userId, quantity })
  })
}

/** An operator stops the sale. */
export function stop(world: World): void {
  world.start('app2', 'an operator stops the sale', () => stopBy(world, 'app2'))
}

async function stopBy(world: World, app: Name): Promise<void> {
  const { process, sale } = world.of(app)
  const { opened } = world.control
  const { failovers } = world.watch
  await sale.control(SIM_REF.activityId, 'stopped', AUDIT)
  if (process.dead || world.control.opened !== opened) return
  world.note(app, 'acknowledges the stop')
  world.watch.stop(failovers)
}

/** An operator adds units, or withdraws them. With the same id again it is the same operation. */
export function topUp(world: World, app: Name, units: number, id: string): void {
  const { sale } = world.of(app)
  world.start(app, `tops up by ${units} (${id})`, () =>
    sale.topUp(SIM_REF, units, id, AUDIT).catch((error: { readonly code?: string }) => {
      // More is withdrawn than there is.
      if (error.code !== 'BAD_INPUT') throw error
    }),
  )
}

/** The payment deadline of a confirmed order passes. */
export function closeUnpaid(world: World, { orderNo }: OrderRow): void {
  const { payments } = world.of('relay').sale
  world.start('relay', `closes unpaid ${orderNo}`, () =>
    payments.close({ orderNo, reason: 'unpaid' }),
  )
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
  const numbers = batches.flatMap((b) => b.reservations.map((r) => r.orderNo))
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
  const userId = world.queued.get(orderNo)?.userId ?? ''
  const { sale } = world.of('app1')
  world.start('app1', `asks for the result of ${orderNo}`, () =>
    sale.result({ ...SIM_REF, userId, orderNo }),
  )
}

export function relay(world: World): void {
  world.start('relay', 'relays', () => world.of('relay').sale.relay())
}

export function reconcile(world: World): void {
  world.start('relay', 'reconciles', () => world.of('relay').sale.reconcile())
}

export function rebuild(world: World, reopen: boolean): void {
  world.start('relay', 'rebuilds Redis', () =>
    world.of('relay').sale.rebuild(SIM_REF.activityId, AUDIT, { waitMs: 0, reopen }),
  )
}

/** Whoever holds the lease looks after Redis. */
export function guard(world: World, name: Name): void {
  world.start(name, 'guards', async () => world.of(name).sale.guard?.())
}
