import { deepEqual, equal } from 'node:assert/strict'
import type { OrderBook } from '../../core/order-book.js'
import type { Reservation } from '../../core/types.js'
import type { OrderHooksCheck } from '../order-hooks-suite.js'
import type { HooksBench } from './bench.js'

async function booked(bench: HooksBench, book: OrderBook, count: number) {
  const orders = bench.orders(count)
  await bench.confirmed(orders, await book.confirm(orders))
  return orders
}

const numbersOf = (orders: readonly Reservation[]) => orders.map((o) => o.orderNo)

export const closing: readonly OrderHooksCheck[] = [
  {
    name: 'P2: an order that is closed does not stand any more, those beside it do',
    needs: ['closes'],
    async check(bench) {
      const book = await bench.book()
      const orders = await booked(bench, book, 6)
      await book.closeUnpaid(numbersOf(orders.slice(0, 4)), 'unpaid')
      const verdicts = await book.confirm(orders)
      equal(verdicts.filter((v) => v.status === 'closed').length, 4)
      await bench.agrees(orders, verdicts)
    },
  },
  {
    name: 'C21: closing again, also four times at once, changes nothing',
    needs: ['closes'],
    async check(bench) {
      const book = await bench.book()
      const orders = await booked(bench, book, 5)
      const numbers = numbersOf(orders)
      await Promise.all([1, 2, 3, 4].map(() => book.closeUnpaid(numbers, 'unpaid')))
      await bench.agrees(orders, await book.closeUnpaid(numbers, 'again'))
    },
  },
  {
    name: 'P2: closing runs again for the same orders once it was undone',
    needs: ['closes'],
    async check(bench) {
      const book = await bench.book({
        told: (orders, run) => (run === 1 ? orders : [...orders].reverse()),
        closed(orders) {
          if (orders.length > 2) throw new Error('undone by the suite')
        },
      })
      const orders = await booked(bench, book, 7)
      const verdicts = await book.closeUnpaid(numbersOf(orders), 'unpaid')
      deepEqual(new Set(verdicts.map((v) => v.status)), new Set(['closed']))
      await bench.agrees(orders, verdicts)
    },
  },
  {
    name: 'Q5: an order whose closing is undone stands as before, and those beside it are closed',
    needs: ['closes'],
    async check(bench) {
      let kept = ''
      const book = await bench.book({
        closed(orders) {
          if (orders.some((o) => o.orderNo === kept)) throw new Error('by the suite')
        },
      })
      const orders = await booked(bench, book, 5)
      kept = orders[2]?.orderNo ?? ''
      const verdicts = await book.closeUnpaid(numbersOf(orders), 'unpaid')
      equal(verdicts.find((v) => v.orderNo === kept)?.status, 'confirmed')
      equal(verdicts.filter((v) => v.status === 'closed').length, 4)
      await bench.agrees(orders, verdicts)
    },
  },
]
