import { newOrderNo } from 'flash-sale-kit'
import { AUDIT, type Shop } from '../pipeline/shop.js'
import {
  confirmed,
  deducted,
  fresh,
  hset,
  keyOf,
  order,
  paid,
  pay,
  paymentsOf,
  release,
  reservation,
  shift,
  tell,
} from './world.js'

export interface Plant {
  readonly kind: string
  readonly repair: string
  /** What was done, where there are several of one kind. */
  readonly how?: string
  /** Fits beside the others in one sale: it neither hides nor explains them. */
  readonly mixes: boolean
  /** Money is compared too. */
  readonly money?: true
  /** `user` is nobody's yet. */
  readonly plant: (shop: Shop, user: string) => Promise<unknown>
}

const number = (kind: string, repair: string, plant: Plant['plant'], how?: string): Plant => ({
  kind,
  repair,
  plant,
  mixes: true,
  ...(how ? { how } : {}),
})
/** What is wrong with the sale as a whole. */
const whole = (kind: string, repair: string, plant: Plant['plant'], how?: string): Plant => ({
  ...number(kind, repair, plant, how),
  mixes: false,
})
const money = (kind: string, plant: Plant['plant'], how?: string): Plant => ({
  ...number(kind, 'manual', plant, how),
  money: true,
})

/** What a refund of the whole amount leaves. */
export const REFUNDED = { status: 'CLOSED', reason: 'refunded', live_key: null }

const stockRow = (shop: Shop) =>
  shop.knex('seckill_stock').where({ activity_id: shop.ref.activityId, sku_id: shop.ref.skuId })

export const PLANTS: readonly Plant[] = [
  number('no-order', 'close', deducted),
  number('no-deduction', 'deduct', (shop, user) => shop.orders.confirm([reservation(shop, user)])),
  number(
    'no-deduction',
    'deduct',
    async (shop, user) => {
      const r = reservation(shop, user)
      await shop.orders.confirm([r])
      await pay(shop, r)
    },
    'of a paid order',
  ),
  number('confirm-owed', 'confirm', async (shop, user) =>
    shop.orders.confirm([await deducted(shop, user)]),
  ),
  number('paid-owed', 'confirm', async (shop, user) => pay(shop, await confirmed(shop, user))),
  number(
    'paid-owed',
    'confirm',
    async (shop, user) => {
      const r = await deducted(shop, user)
      await shop.orders.confirm([r])
      await pay(shop, r)
    },
    'of a held record',
  ),
  number('release-owed', 'release', async (shop, user) =>
    shop.orders.closeUnbooked([await deducted(shop, user)], 'lost'),
  ),
  number(
    'release-owed',
    'release',
    async (shop, user) =>
      shop.orders.closeUnpaid([(await confirmed(shop, user)).orderNo], 'unpaid'),
    'of a confirmed record',
  ),
  number('no-closing', 'close', async (shop, user) => release(shop, await deducted(shop, user))),
  number('excess-order', 'close-order', async (shop, user) => {
    const r = await deducted(shop, user)
    await shop.orders.confirm([r])
    await release(shop, r)
  }),
  number(
    'paid-owed',
    'confirm',
    async (shop, user) => order(shop, await confirmed(shop, user)).update(REFUNDED),
    'of an order refunded since',
  ),
  number(
    'no-deduction',
    'deduct',
    async (shop, user) => {
      const r = reservation(shop, user)
      await shop.orders.confirm([r])
      await order(shop, r).update(REFUNDED)
    },
    'of an order refunded since',
  ),
  number(
    'paid-but-returned',
    'manual',
    async (shop, user) => {
      const r = await confirmed(shop, user)
      await release(shop, r)
      await order(shop, r).update(REFUNDED)
    },
    'and refunded since',
  ),
  number(
    'excess-order',
    'close-order',
    async (shop, user) => {
      const r = await confirmed(shop, user)
      await release(shop, r)
      await confirmed(shop, `${user}-other`)
      await hset(shop, 'done', { [user]: `r|other-${user}|1|${r.reservedAt}|` })
      await shop.orders.closeUnbooked([{ ...r, orderNo: `other-${user}` }], 'lost')
      await hset(shop, 'released', { [`other-${user}`]: 'lost' })
    },
    'of which only a tombstone is left',
  ),
  number('paid-but-returned', 'manual', async (shop, user) => {
    const r = await confirmed(shop, user)
    await release(shop, r)
    await pay(shop, r)
  }),
  number('order-missing', 'manual', async (shop, user) =>
    tell(shop, 'confirmed', await deducted(shop, user)),
  ),
  number(
    'order-missing',
    'manual',
    async (shop, user) => tell(shop, 'paid', await deducted(shop, user)),
    'of a paid record',
  ),
  number('paid-differs', 'manual', async (shop, user) =>
    tell(shop, 'paid', await confirmed(shop, user)),
  ),
  number(
    'paid-differs',
    'manual',
    async (shop, user) => {
      const r = await confirmed(shop, user)
      await tell(shop, 'paid', r)
      await shop.orders.closeUnpaid([r.orderNo], 'unpaid')
      await shop.orders.released([r.orderNo])
    },
    'of a closed order',
  ),
  number('quantity-differs', 'manual', async (shop, user) => {
    const r = await deducted(shop, user)
    await shop.orders.confirm([{ ...r, quantity: 2 }])
    await tell(shop, 'confirmed', r)
  }),
  number('owner-differs', 'manual', async (shop, user) => {
    const r = await deducted(shop, user)
    await shop.orders.confirm([{ ...r, userId: `${user}-other` }])
    await tell(shop, 'confirmed', r)
  }),
  number('terms-differ', 'manual', async (shop, user) =>
    order(shop, await confirmed(shop, user)).update({ version: '0' }),
  ),
  number(
    'terms-differ',
    'manual',
    async (shop, user) => order(shop, await confirmed(shop, user)).update({ bucket: 1 }),
    'in the bucket',
  ),
  number('mark-missing', 'confirm', async (shop, user) => {
    // Redis lost the first order; its buyer took a second, which the database refused.
    const [first, second] = [reservation(shop, user), await deducted(shop, user)]
    await shop.orders.confirm([first])
    await tell(shop, 'confirmed', first)
    await shop.orders.confirm([second])
    await release(shop, second)
  }),
  number('two-live-orders', 'manual', async (shop, user) => {
    await confirmed(shop, user)
    const r = reservation(shop, `${user}-other`)
    await shop.orders.confirm([r])
    await order(shop, r).update({ user_id: user })
    await tell(shop, 'confirmed', { ...r, userId: user })
  }),
  number('unreadable-record', 'manual', (shop, user) => hset(shop, 'done', { [user]: 'nonsense' })),
  number('tombstone-alone', 'manual', (shop) =>
    hset(shop, 'released', { [newOrderNo()]: 'by hand' }),
  ),
  number('top-up-owed', 'top-up', (shop) => shop.orders.topUp(shop.ref, 3, newOrderNo(), AUDIT)),
  number(
    'top-up-owed',
    'top-up',
    (shop) => shop.orders.topUp(shop.ref, -2, newOrderNo(), AUDIT),
    'that withdraws',
  ),
  number('top-up-unbooked', 'manual', (shop) => shop.sale.stock.topUp(shop.ref, 2, newOrderNo())),
  number('release-row-owed', 'strike', async (shop, user) => {
    const r = await confirmed(shop, user)
    await shop.orders.closeUnpaid([r.orderNo], 'unpaid')
    await release(shop, r)
    await shop
      .knex('local_message')
      .where('biz_no', `release:${r.orderNo}`)
      .update({ created_at: 0 })
  }),
  number('batch-overdue', 'settle', async (shop, user) => {
    const before = await batches(shop)
    await fresh(shop, user)
    for (const batchId of await batches(shop)) {
      if (before.includes(batchId)) continue
      await hset(shop, 'batch', { [` ${batchId}`]: Date.now() - 3_600_000 })
      await shop.redis.eval(
        `return redis.call('ZADD', KEYS[1], '1', ARGV[1])`,
        1,
        keyOf(shop, 'owed'),
        batchId,
      )
    }
  }),
  whole('total-differs', 'manual', (shop) =>
    stockRow(shop).increment('total', 1).increment('available', 1),
  ),
  whole('stock-row-differs', 'manual', (shop) => stockRow(shop).decrement('available', 1)),
  whole('numbers-corrupt', 'manual', (shop) => hset(shop, 'stock', { available: 99_999 })),
  whole('pending-differs', 'manual', (shop) =>
    shift(shop, { available: -1, frozen: 1, pending: 1 }),
  ),
  whole('frozen-differs', 'manual', (shop) => shift(shop, { available: -1, frozen: 1 })),
  whole('sold-differs', 'manual', (shop) => shift(shop, { available: -1, sold: 1 })),
  whole('over-unexplained', 'manual', (shop) => shift(shop, { total: 1, available: 1, over: 1 })),
  whole('waiting-differs', 'manual', (shop) => hset(shop, 'sale', { waiting: 5 })),
  whole('stop-owed', 'stop', (shop) =>
    shop.options.control.set(shop.ref.activityId, 'stopped', AUDIT),
  ),
  whole('open-owed', 'manual', (shop) => shop.sale.stock.control(shop.ref.activityId, 'stopped')),
  whole('database-behind', 'manual', async (shop, user) =>
    tell(shop, 'confirmed', await fresh(shop, user)),
  ),
  money('paid-without-payment', paid),
  money('payment-without-order', async (shop, user) =>
    paymentsOf(shop).add(await confirmed(shop, user)),
  ),
  money('amount-differs', async (shop, user) =>
    paymentsOf(shop).add(await paid(shop, user), { capturedMinor: 99 }),
  ),
  money(
    'amount-differs',
    async (shop, user) => paymentsOf(shop).add(await paid(shop, user), { currency: 'USD' }),
    'in the currency',
  ),
  money('paid-twice', async (shop, user) => {
    const r = await paid(shop, user)
    paymentsOf(shop).add(r)
    paymentsOf(shop).add(r, { orderNo: `${r.orderNo}x` })
  }),
  money('refund-exceeds-payment', async (shop, user) =>
    paymentsOf(shop).add(await paid(shop, user), { refundingMinor: 101 }),
  ),
]

async function batches(shop: Shop): Promise<readonly string[]> {
  const members = await shop.redis.eval(
    `return table.concat(redis.call('HKEYS', KEYS[1]), '\\n')`,
    1,
    keyOf(shop, 'batch'),
  )
  return String(members)
    .split('\n')
    .filter((field) => field !== '' && !field.startsWith(' '))
}
