import { deepEqual, equal, rejects } from 'node:assert/strict'
import type { OrderBookCheck } from '../order-book-suite.js'
import { BY, PRICE, refOf, tally } from './bench.js'

const EIGHT = [1, 2, 3, 4, 5, 6, 7, 8]

export const stocking: readonly OrderBookCheck[] = [
  {
    name: 'C03: eight prepare at once and later ones make one stock row for each SKU, and never reset it',
    async check(bench) {
      const sale = await bench.sale({ skuCount: 3, units: 50, prepared: false })
      const fresh = sale.skus.map(({ skuId }) => ({
        ...refOf(sale, skuId),
        ...{ total: 50, available: 50, live: 0, topUps: [] },
      }))
      const all = await Promise.all(
        EIGHT.map((i) => (i % 2 ? bench.book : bench.other).prepare(sale)),
      )
      for (const numbers of all) deepEqual(numbers, fresh)
      await bench.book.confirm(bench.orders(sale, 20))
      const [first, ...others] = await bench.book.prepare(sale)
      deepEqual(first, { ...refOf(sale), total: 50, available: 30, live: 20, topUps: [] })
      deepEqual(others, fresh.slice(1))
    },
  },
  {
    name: 'C03: a version that never sold is replaced; one that sold is not',
    async check(bench) {
      const sale = await bench.sale({ units: 50 })
      const sku = { skuId: 's1', units: 70, priceMinor: 2 * PRICE, currency: 'CNY' }
      const v2 = { ...sale, version: 'v2', skus: [sku] }
      deepEqual(tally(await bench.book.confirm(bench.orders(v2, 1))), {
        'closed: version-mismatch': 1,
      })
      equal((await bench.book.prepare(v2))[0]?.total, 70)
      const order = bench.order(v2)
      await bench.book.confirm([order])
      equal((await bench.row(order.orderNo)).amountMinor, 2 * PRICE)
      await rejects(bench.book.prepare(sale), 'live orders were priced by the other version')
      equal((await bench.numbers(refOf(sale))).total, 70)
    },
  },
  {
    name: 'S7: what is prepared again names the top-ups that are in its total',
    async check(bench) {
      const sale = await bench.sale({ units: 10 })
      const operationId = `${sale.activityId}-op`
      await bench.book.topUp(refOf(sale), 5, operationId, BY)
      const [numbers] = await bench.book.prepare(sale)
      const topUps = [{ operationId, units: 5 }]
      deepEqual(numbers, { ...refOf(sale), total: 15, available: 15, live: 0, topUps })
    },
  },
  {
    name: 'C03: other terms under the same version are refused, not silently ignored',
    async check(bench) {
      const sale = await bench.sale()
      const cheaper = [{ skuId: 's1', units: 100, priceMinor: 1, currency: 'CNY' }]
      for (const change of [{ skus: cheaper }, { payWithinMs: 60_000 }, { maxPerOrder: 3 }])
        await rejects(bench.book.prepare({ ...sale, ...change }))
    },
  },
  {
    name: 'S7: tops up once for each operation id, also eight times at once',
    async check(bench) {
      const sale = await bench.sale({ units: 10 })
      await bench.book.confirm(bench.orders(sale, 4))
      const operationId = `${sale.activityId}-op`
      const after = { ...refOf(sale), total: 15, available: 11, live: 4 }
      const all = await Promise.all(
        EIGHT.map((i) => (i % 2 ? bench.book : bench.other).topUp(refOf(sale), 5, operationId, BY)),
      )
      for (const numbers of all) deepEqual(numbers, after)
      deepEqual(await bench.book.topUps(refOf(sale)), {
        total: 15,
        operations: [{ operationId, units: 5 }],
      })
      await rejects(bench.book.topUp(refOf(sale), 6, operationId, BY), 'the id of another top-up')
      deepEqual(await bench.numbers(refOf(sale)), after)
    },
  },
  {
    name: 'S7: withdraws what is available and not one unit more; a refusal leaves no trace of its id',
    async check(bench) {
      const sale = await bench.sale({ units: 10 })
      await bench.book.confirm(bench.orders(sale, 4))
      const top = (units: number, n: number) =>
        bench.book.topUp(refOf(sale), units, `${sale.activityId}-${n}`, BY)
      await rejects(top(-7, 1))
      equal((await top(-6, 2)).available, 0)
      await rejects(top(-1, 3))
      equal((await top(2, 1)).total, 6)
    },
  },
  {
    name: 'S7: confirms and withdrawals at once never leave less than nothing',
    async check(bench) {
      const sale = await bench.sale({ units: 30 })
      // In turn, so that the last withdrawals find too little.
      const both = await Promise.all(
        EIGHT.map(async (i) => {
          const confirming = bench.book.confirm(bench.orders(sale, 4))
          const withdrawn = bench.other.topUp(refOf(sale), -2, `${sale.activityId}-${i}`, BY).then(
            () => 2,
            () => 0,
          )
          return { verdicts: await confirming, gone: await withdrawn }
        }),
      )
      const gone = both.reduce((sum, one) => sum + one.gone, 0)
      const verdicts = both.flatMap((one) => one.verdicts)
      const live = verdicts.filter((v) => v.status === 'confirmed').length
      deepEqual(await bench.numbers(refOf(sale)), {
        ...refOf(sale),
        total: 30 - gone,
        live,
        available: 30 - gone - live,
      })
    },
  },
  {
    name: 'an SKU nobody prepared has no numbers and takes no top-up',
    async check(bench) {
      const sale = await bench.sale({ prepared: false })
      equal(await bench.book.numbers(refOf(sale)), null)
      equal(await bench.book.topUps(refOf(sale)), null)
      await rejects(bench.book.topUp(refOf(sale), 1, `${sale.activityId}-op`, BY))
    },
  },
]
