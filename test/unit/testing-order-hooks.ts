import { KnexOrderBook } from 'flash-sale-kit/knex'
import type { HooksLike, OrderHooksUnderTest, OrderToBook } from 'flash-sale-kit/testing'
import type { Knex } from 'knex'
import { insertShopOrders, migrate } from '../../examples/express/server.js'
import { type DatabaseKind, freshDatabase } from '../harness/databases.js'

type Hooks = HooksLike<Knex.Transaction>

/** The hooks of the Express example, or others over its table. */
export async function shopUnderTest(
  kind: DatabaseKind,
  hooks: (outer: Knex) => Hooks = () => ({ onConfirm: insertShopOrders }),
): Promise<OrderHooksUnderTest<Knex.Transaction>> {
  const { knex, destroy } = await freshDatabase(kind, { poolMax: 1 })
  await migrate(knex)
  return {
    hooks: hooks(knex),
    book: (wrapped, limits) => new KnexOrderBook({ knex, hooks: wrapped, ...limits }),
    async standing(orderNos) {
      const rows = await knex('shop_order').whereIn('order_no', [...orderNos])
      return rows.map((r) => ({ orderNo: r.order_no, amountMinor: Number(r.amount_minor) }))
    },
    good: { payload: { address: 'Main Street 1' } },
    poison: { payload: 'no object' },
    refused: { payload: { address: 'PO box 7' } },
    close: destroy,
  }
}

const addressOf = ({ payload }: OrderToBook): string => {
  if (typeof payload === 'object' && payload !== null && 'address' in payload)
    return String(payload.address)
  throw new TypeError('an order without an address')
}

/** A careful host: refuses what he cannot deliver, throws for what is no address, takes closed orders back. */
export const careful: Hooks = {
  async onConfirm(trx, orders) {
    const vetoes = orders
      .filter((o) => addressOf(o).startsWith('PO box'))
      .map(({ orderNo }) => ({ orderNo, veto: 'no PO boxes' }))
    await insertShopOrders(trx, orders)
    return vetoes
  },
  async onClose(trx, orders) {
    const numbers = orders.map((o) => o.orderNo)
    await trx('shop_order').whereIn('order_no', numbers).delete()
  },
}
