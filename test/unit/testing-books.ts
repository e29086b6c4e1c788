import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from 'flash-sale-kit/knex'
import type {
  ActivityControlUnderTest,
  ActivityStoreUnderTest,
  OrderBookUnderTest,
} from 'flash-sale-kit/testing'
import { type DatabaseKind, freshDatabase } from '../harness/databases.js'

async function migrated(kind: DatabaseKind) {
  const db = await freshDatabase(kind)
  await KnexOrderBook.migrate(db.knex)
  return db
}

/** The library's own adapters, for the suites that it exports. */
export async function knexOrderBook(kind: DatabaseKind): Promise<OrderBookUnderTest> {
  const { knex, destroy } = await migrated(kind)
  const another = () => new KnexOrderBook({ knex })
  const control = new KnexActivityControl({ knex })
  return {
    book: another(),
    another,
    async pay(orderNo) {
      const confirmed = { order_no: orderNo, status: 'CONFIRMED' }
      return (await knex('seckill_order').where(confirmed).update({ status: 'PAID' })) > 0
    },
    async passTime(ms) {
      await knex('local_message').decrement('next_retry_time', ms).decrement('created_at', ms)
    },
    tasks: () => knex('seckill_manual_task').select('kind', 'ref'),
    async control(activityId, to) {
      await control.set(activityId, to, { actor: 'suite', reason: 'a test' })
    },
    close: destroy,
  }
}

export async function knexActivityControl(kind: DatabaseKind): Promise<ActivityControlUnderTest> {
  const { knex, destroy } = await migrated(kind)
  return {
    control: new KnexActivityControl({ knex }),
    another: () => new KnexActivityControl({ knex }),
    async audited(activityId) {
      const rows = await knex('seckill_audit').where({ activity_id: activityId ?? '*' })
      return rows.length
    },
    close: destroy,
  }
}

export async function knexActivityStore(kind: DatabaseKind): Promise<ActivityStoreUnderTest> {
  const { knex, destroy } = await migrated(kind)
  const store = new KnexActivityStore({ knex })
  return {
    store,
    put: (activity) => store.save(activity),
    async settle(activityId) {
      await store.retire(activityId)
    },
    close: destroy,
  }
}
