import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { crowd, expectWhole, openSale, users } from '../suites/crash/sale.js'

const UNITS = 1_000
const CAP = 200

/** Most entries within any second; `at` in ms, in any order. */
function busiestSecond(times: readonly number[]): number {
  const sorted = [...times].sort((a, b) => a - b)
  let most = 0
  for (let first = 0, end = 0; first < sorted.length; first++) {
    while (end < sorted.length && (sorted[end] as number) < (sorted[first] as number) + 1_000) end++
    most = Math.max(most, end - first)
  }
  return most
}

interface Count {
  readonly asked: number
  readonly answered: number
  readonly orders: number
}

/**
 * Most orders that were surely committed within one second: what one count has more than another was committed after that
 * one was asked and before this one was answered.
 */
function mostCommitted(counts: readonly Count[]): number {
  let most = 0
  for (const from of counts)
    for (const to of counts)
      if (to.answered > from.answered && to.answered - from.asked <= 1_000)
        most = Math.max(most, to.orders - from.orders)
  return most
}

/**
 * `created_at` is read by the database within the transaction, before the commit. The cap counts an order from before that until
 * a second after the commit, so it bounds both; what locks and the disk feel is the commit, so both are measured.
 */
test('Q4: four consumer processes together write at most 200 orders in any second, and all of them', async () => {
  const sale = await openSale('mariadb', UNITS, { kind: 'redis-streams' })
  try {
    await sale.openShop({ role: 'shop' })
    await Promise.all(
      [1, 2, 3, 4].map(() => sale.openShop({ role: 'consumer', ordersPerSecond: CAP })),
    )
    const counts: Count[] = []
    let over = false
    const counting = (async () => {
      while (!over) {
        const asked = performance.now()
        const [row] = await sale.knex('seckill_order').count({ orders: '*' })
        counts.push({ asked, answered: performance.now(), orders: Number(row?.orders) })
        await sleep(20)
      }
    })()
    const heard = await crowd(sale, users(UNITS), 50)
    await expectWhole(sale, heard, UNITS).finally(() => {
      over = true
    })
    await counting

    const rows = await sale.knex('seckill_order').select('created_at', 'status')
    expect(rows.length).toBe(UNITS)
    const created = busiestSecond(rows.map((row) => Number(row.created_at)))
    const committed = mostCommitted(counts)
    expect(created).toBeLessThanOrEqual(CAP)
    expect(committed).toBeLessThanOrEqual(CAP)
    expect(created, 'the cap is used').toBeGreaterThan(CAP / 2)
  } finally {
    await sale.close()
  }
})
