import { deepEqual, equal, rejects } from 'node:assert/strict'
import type { Activity } from '../../core/types.js'
import type { OrderBookCheck } from '../order-book-suite.js'
import { type BookBench, refOf, tally } from './bench.js'

async function open(bench: BookBench, o: Parameters<BookBench['sale']>[0]): Promise<Activity> {
  const sale = await bench.sale({ ...o, mode: 'strong' })
  await bench.under.control?.(sale.activityId, 'open')
  return sale
}

export const buying: readonly OrderBookCheck[] = [
  {
    name: 'S11: 60 buyers at once get exactly the 20 units, and losers leave no row',
    needs: ['strong'],
    async check(bench) {
      const sale = await open(bench, { units: 20 })
      const orders = bench.orders(sale, 60)
      const answers = await Promise.all(
        orders.map((r, i) => (i % 2 ? bench.book : bench.other).buy(r)),
      )
      deepEqual(tally(answers), { confirmed: 20, 'sold-out': 40 })
      equal((await bench.book.find(orders.map((r) => r.orderNo))).length, 20)
    },
  },
  {
    name: 'S11: answers a repeat from its row, whatever state and stock are by now',
    needs: ['strong'],
    async check(bench) {
      const sale = await open(bench, { units: 1 })
      const order = bench.order(sale)
      const { orderNo } = order
      deepEqual(await bench.book.buy(order), { status: 'confirmed', orderNo, fresh: true })
      await bench.under.control?.(sale.activityId, 'stopped')
      deepEqual(await bench.book.buy(order), { status: 'confirmed', orderNo, fresh: false })
      await bench.book.closeUnpaid([orderNo], 'unpaid')
      deepEqual(await bench.book.buy(order), { status: 'closed', orderNo, reason: 'unpaid' })
      await rejects(bench.book.buy({ ...order, userId: 'another' }), 'another buyer’s number')
    },
  },
  {
    name: 'S11: tells a buyer of his live order',
    needs: ['strong'],
    async check(bench) {
      const sale = await open(bench, {})
      const [first, second] = bench.orders(sale, 2, { userId: 'ann' })
      if (!first || !second) return
      await bench.book.buy(first)
      const { orderNo } = first
      deepEqual(await bench.book.buy(second), { status: 'already-bought', orderNo })
    },
  },
  {
    name: 'S11: refuses with the reason, and writes nothing',
    needs: ['strong'],
    async check(bench) {
      const sale = await open(bench, { units: 3, maxPerOrder: 5 })
      const buy = (o: object) => bench.book.buy(bench.order(sale, o))
      deepEqual(await buy({ quantity: 4 }), { status: 'not-enough', available: 3 })
      deepEqual(await buy({ version: 'v0' }), { status: 'version-mismatch' })
      await rejects(buy({ quantity: 6 }))
      await rejects(buy({ skuId: 'nowhere' }))
      await bench.under.control?.(sale.activityId, 'stopped')
      deepEqual(await buy({}), { status: 'stopped' })
      for await (const row of bench.book.snapshot(refOf(sale))) equal(row.orderNo, 'no row at all')
    },
  },
]
