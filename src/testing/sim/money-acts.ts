import type { OrderRow } from '../../core/order-book.js'
import type { PaymentNotice } from '../../core/payment.js'
import { SIM_REF } from './ledger.js'
import type { Name } from './names.js'
import type { SimChannel } from './sim-channel.js'
import type { Payment } from './sim-payment-rows.js'
import type { World } from './world.js'

/** A buyer goes to a channel's page. */
export function checkOut(world: World, app: Name, row: OrderRow, channel: string): void {
  const { orderNo, userId } = row
  const { payments } = world.of(app).sale
  world.start(app, `asks channel ${channel} for the payment of ${orderNo}`, () =>
    payments.create({ orderNo, userId, channel }),
  )
}

/** A buyer pays by a payment of the host's own, for an order or for a number that is none yet. */
export function payOwn(
  world: World,
  channel: SimChannel,
  o: { readonly orderNo: string; readonly userId: string; readonly quantity: number },
): void {
  const { orderNo, userId, quantity } = o
  const paymentId = `own${channel.trades.length + 1}-${channel.name}`
  world.note('buyer', `pays ${orderNo} at channel ${channel.name} (${paymentId})`)
  const order = { ...SIM_REF, orderNo }
  channel.pay(paymentId, { amountMinor: 100 * quantity, userId, order })
}

/** A buyer pays what a channel asks him for. */
export function payOpen(world: World, channel: SimChannel, paymentId: string): void {
  world.note('buyer', `pays ${paymentId} at channel ${channel.name}`)
  channel.pay(paymentId)
}

/** A channel calls back; it comes again until it is acknowledged. `lie`: it names another amount. */
export function callBack(
  world: World,
  app: Name,
  o: { readonly channel: SimChannel; readonly notice: PaymentNotice; readonly lie: boolean },
): void {
  const { channel, notice, lie } = o
  const { process, sale } = world.of(app)
  const said = lie ? { ...notice, amountMinor: notice.amountMinor + 1 } : notice
  const what = `${notice.paymentId} is paid${lie ? ', with another amount' : ''}`
  world.start(app, `hears from channel ${channel.name} that ${what}`, async () => {
    const { acknowledge } = await sale.payments.notice(said)
    if (acknowledge && !lie && !process.dead)
      channel.outgoing = channel.outgoing.filter((one) => one !== notice)
  })
}

/** All of an order's money goes back, or one half of it. Asked for again, it is the same refund. */
export function refund(world: World, app: Name, payment: Payment, half: 'all' | 1 | 2): void {
  const { paymentId, capturedMinor } = payment
  const amountMinor = half === 'all' ? capturedMinor : capturedMinor / 2
  const refundId = half === 'all' ? `refund-${paymentId}` : `half${half}-${paymentId}`
  const { payments } = world.of(app).sale
  world.start(app, `refunds ${amountMinor} of ${paymentId}`, () =>
    payments.refund({ paymentId, refundId, amountMinor, reason: 'simulated' }),
  )
}

export function keep(world: World, app: Name): void {
  const { payments } = world.of(app).sale
  world.start(app, 'looks after payments', () => payments.keep())
}

/** A buyer gives his order up, whether there is a row yet or not. */
export function cancel(world: World, app: Name, orderNo: string, userId: string): void {
  const { payments } = world.of(app).sale
  world.start(app, `cancels ${orderNo}`, () => payments.cancel({ ...SIM_REF, orderNo, userId }))
}

/** All callbacks are acknowledged in the end, and what was given up is asked for again by a person. */
export async function settleMoney(world: World): Promise<void> {
  if (!world.pays && world.channels.every((channel) => channel.trades.length === 0)) return
  for (const channel of world.channels)
    for (const notice of channel.outgoing) {
      callBack(world, 'app1', { channel, notice, lie: false })
      await world.drain()
    }
  for (const { state, ...q } of world.money.refunds.values()) {
    if (state !== 'parked') continue
    const { payments } = world.of('app2').sale
    world.start('app2', `asks again for the refund ${q.refundId}`, () => payments.refund(q))
    await world.drain()
  }
  keep(world, 'relay')
  await world.drain()
}
