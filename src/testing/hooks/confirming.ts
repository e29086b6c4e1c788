import { equal, fail } from 'node:assert/strict'
import { within } from '../../core/background.js'
import type { OrderHooksCheck } from '../order-hooks-suite.js'

export const confirming: readonly OrderHooksCheck[] = [
  {
    name: 'D1: writes each order of a batch once, at the price of its version',
    async check(bench) {
      const book = await bench.book()
      const orders = [...bench.orders(5), { ...bench.order(), quantity: 3 }]
      await bench.confirmed(orders, await book.confirm(orders))
    },
  },
  {
    name: 'D1: takes 256 orders in one batch',
    async check(bench) {
      const book = await bench.book()
      const orders = bench.orders(256)
      await bench.confirmed(orders, await book.confirm(orders))
    },
  },
  {
    name: 'D2: orders that come again beside fresh ones stay as they are',
    async check(bench) {
      const book = await bench.book()
      const orders = bench.orders(8)
      await Promise.all([1, 2, 3, 4].map(() => book.confirm(orders.slice(0, 5))))
      await bench.confirmed(orders, await book.confirm([...orders].reverse()))
    },
  },
  {
    name: 'D1: runs again for the same orders, in other batches and another order, once it was undone',
    async check(bench) {
      const book = await bench.book({
        told: (orders, run) => (run === 1 ? orders : [...orders].reverse()),
        confirmed: (orders) => {
          if (orders.length > 2) throw new Error('undone by the suite')
          return undefined
        },
      })
      const orders = bench.orders(7)
      await bench.confirmed(orders, await book.confirm(orders))
    },
  },
  {
    name: 'C19: needs no connection but the one of its transaction',
    async check(bench) {
      let apart = true
      const book = await bench.book({
        async confirmed() {
          // A second connection would answer this while the first is still busy.
          apart = await within(
            book.numbers({ activityId: bench.activity.activityId, skuId: 's1' }).then(
              () => false,
              () => true,
            ),
            100,
            () => true,
          )
          return undefined
        },
      })
      const orders = bench.orders(2)
      await bench.confirmed(orders, await book.confirm(orders))
      equal(apart, true, 'give the suite a pool of ONE connection, or it cannot see who needs two')
    },
  },
  {
    name: 'C19: a commit that hangs behind it is cut off and repeated, with nothing left of the first',
    async check(bench) {
      let runs = 0
      const book = await bench.book(
        {
          async confirmed(_, run) {
            runs = run
            if (run === 1) await new Promise(() => {})
            return undefined
          },
        },
        { hookTimeoutMs: 1_000 },
      )
      const orders = bench.orders(3)
      const verdicts = await book.confirm(orders)
      if (runs < 2) fail('the book did not cut it off: are its limits passed on?')
      await bench.confirmed(orders, verdicts)
    },
  },
]
