import { deepEqual, equal } from 'node:assert/strict'
import type { OrderBookCheck } from '../order-book-suite.js'
import { refOf } from './bench.js'

export const reading: readonly OrderBookCheck[] = [
  {
    name: 'find: rows in the order asked for, each once, unknown numbers left out',
    async check(bench) {
      const sale = await bench.sale()
      const [a, b, c] = [bench.order(sale), bench.order(sale), bench.order(sale)]
      await bench.book.confirm([a, b, c])
      const rows = await bench.book.find([c.orderNo, 'none', a.orderNo, c.orderNo])
      deepEqual(
        rows.map((row) => row.orderNo),
        [c.orderNo, a.orderNo],
      )
      deepEqual(await bench.book.find([]), [])
    },
  },
  {
    name: 'findByBuyer: the live order, else the latest closed one, else null',
    async check(bench) {
      const sale = await bench.sale()
      const of = async (userId: string) =>
        (await bench.book.findByBuyer(refOf(sale), userId))?.orderNo
      equal(await of('ann'), undefined)
      const orders = [1, 2, 3].map(() => bench.order(sale, { userId: 'ann' }))
      for (const order of orders.slice(0, 2)) {
        await bench.book.closeUnbooked([order], 'lost')
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
      equal(await of('ann'), orders[1]?.orderNo)
      await bench.book.confirm(orders.slice(2))
      await bench.book.confirm([bench.order(sale, { userId: 'ann' })])
      equal(await of('ann'), orders[2]?.orderNo)
      equal(await of('bob'), undefined)
    },
  },
  {
    name: 'snapshot: every row of an SKU in order of number, or those behind one',
    async check(bench) {
      const sale = await bench.sale({ units: 2_000, skuCount: 2 })
      const orders = bench.orders(sale, 1_100)
      await bench.book.confirm(orders)
      await bench.book.confirm(bench.orders(sale, 3, { skuId: 's2' }))
      const numbers = orders.map((r) => r.orderNo).sort()
      const seen = async (after?: string) => {
        const list: string[] = []
        for await (const row of bench.book.snapshot(refOf(sale), after)) list.push(row.orderNo)
        return list
      }
      deepEqual(await seen(), numbers)
      deepEqual(await seen(numbers[1_049]), numbers.slice(1_050))
    },
  },
  {
    name: 'snapshot: can be left, and the book goes on',
    async check(bench) {
      const sale = await bench.sale()
      await bench.book.confirm(bench.orders(sale, 3))
      for (let i = 0; i < 12; i++) for await (const _ of bench.book.snapshot(refOf(sale))) break
      equal((await bench.numbers(refOf(sale))).live, 3)
    },
  },
  {
    name: 'a manual task of a kind and a ref is there once',
    async check(bench) {
      const { activityId } = await bench.sale()
      const tasks = [1, 2, 3].map((n) => ({ kind: 'suite', ref: activityId, detail: { n } }))
      await Promise.all(tasks.map((task) => bench.book.addManualTask(task)))
      const there = (await bench.under.tasks()).filter((task) => task.ref === activityId)
      deepEqual(
        there.map(({ kind, ref }) => ({ kind, ref })),
        [{ kind: 'suite', ref: activityId }],
      )
    },
  },
]
