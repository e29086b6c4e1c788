import { KnexActivityControl, KnexOrderBook, KnexPaymentBook } from 'flash-sale-kit/knex'
import type { PaymentHooksLike, PaymentHooksUnderTest } from 'flash-sale-kit/testing'
import type { Knex } from 'knex'
import { type DatabaseKind, freshDatabase } from '../harness/databases.js'

type Hooks = PaymentHooksLike<Knex.Transaction>

/** A host who ships what is paid: a row for each parcel. */
export async function depotUnderTest(
  kind: DatabaseKind,
  hooks: (outer: Knex) => Hooks = () => careful,
): Promise<PaymentHooksUnderTest<Knex.Transaction>> {
  const { knex, destroy } = await freshDatabase(kind, { poolMax: 1 })
  await KnexOrderBook.migrate(knex)
  await knex.schema.createTable('parcel', (t) => {
    t.increments('id')
    t.string('order_no', 64).notNullable()
  })
  return {
    hooks: hooks(knex),
    books: (wrapped) => ({
      orders: new KnexOrderBook({ knex }),
      control: new KnexActivityControl({ knex }),
      payments: new KnexPaymentBook({ knex, hooks: wrapped }),
    }),
    begun: async (orderNo) => (await knex('parcel').where({ order_no: orderNo })).length,
    close: destroy,
  }
}

export const careful: Hooks = {
  async onPaid(trx, { orderNo }) {
    await trx('parcel').insert({ order_no: orderNo })
  },
  async onRefunded(trx, { orderNo }) {
    await trx('parcel').where({ order_no: orderNo }).delete()
  },
}
