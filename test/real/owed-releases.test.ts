import type { Activity, Reservation } from 'flash-sale-kit'
import { KnexOrderBook } from 'flash-sale-kit/knex'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'

describe.each(['mariadb', 'mysql', 'postgres'] as const)('owed releases on %s', (kind) => {
  let database: FreshDatabase
  let orders: KnexOrderBook
  beforeAll(async () => {
    database = await freshDatabase(kind)
    await KnexOrderBook.migrate(database.knex)
    orders = new KnexOrderBook({ knex: database.knex, statementTimeoutMs: 1_000 })
  })
  afterAll(() => database?.destroy())

  const all = { olderThanMs: 0, limit: 1_000 }
  const refOf = (activityId: string) => ({ activityId, skuId: 's1' })

  async function prepare(activityId: string): Promise<void> {
    const now = Date.now()
    const activity: Activity = {
      ...{ activityId, version: 'v1', mode: 'queued', tokens: 'off', maxPerOrder: 1 },
      ...{ opensAt: now - 60_000, endsAt: now + 3_600_000, payWithinMs: 900_000 },
      skus: [{ skuId: 's1', units: 100_000, priceMinor: 100, currency: 'CNY' }],
    }
    await orders.prepare(activity)
    expect(await orders.owedReleases(refOf(activityId), all)).toEqual([])
  }

  /** Orders that were confirmed and closed, 500 a transaction. */
  async function closed(activityId: string, name: string, count: number): Promise<string[]> {
    const some = Array.from({ length: count }, (_, i): Reservation => {
      const about = { ...refOf(activityId), orderNo: `${name}-${i}`, userId: `${name}-${i}` }
      return { ...about, quantity: 1, bucket: 0, version: 'v1', reservedAt: Date.now() }
    })
    for (let i = 0; i < count; i += 500) {
      const batch = some.slice(i, i + 500)
      await orders.confirm(batch)
      await orders.closeUnpaid(
        batch.map((r) => r.orderNo),
        'unpaid',
      )
    }
    return some.map((r) => r.orderNo)
  }

  test('a burst of orders that went back does not hide one that has not, nor make it slow to find', async () => {
    await prepare('burst')
    // Within seconds: before the server has taken notice of how large its tables are.
    const gone = await closed('burst', 'gone', 6_000)
    for (let i = 0; i < gone.length; i += 1_000) await orders.released(gone.slice(i, i + 1_000))
    const owed = await closed('burst', 'owed', 2)
    expect(await orders.owedReleases(refOf('burst'), all)).toEqual(owed)
  })

  test('those of another sale, however many, are passed over', async () => {
    await prepare('other')
    await prepare('mine')
    await closed('other', 'theirs', 1_200)
    const mine = await closed('mine', 'mine', 3)
    expect(await orders.owedReleases(refOf('mine'), all)).toEqual(mine)
    expect(await orders.owedReleases(refOf('mine'), { olderThanMs: 0, limit: 2 })).toEqual(
      mine.slice(0, 2),
    )
    expect(await orders.owedReleases(refOf('mine'), { olderThanMs: 60_000, limit: 2 })).toEqual([])
  })
})
