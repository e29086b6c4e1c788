import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import type { OrderBookCheck } from '../order-book-suite.js'
import { PRICE, refOf, tally } from './bench.js'

export const deciding: readonly OrderBookCheck[] = [
  {
    name: 'D1 D2: confirms a batch, priced by the terms of its version, with all that came along',
    async check(bench) {
      const sale = await bench.sale({ units: 10 })
      const payload = { to: `O'Hara \\ "秒杀" 🔥`, n: [1.5, null] }
      const [a, b] = [bench.order(sale, { quantity: 3, payload }), bench.order(sale)]
      deepEqual(await bench.book.confirm([a, b]), [
        { orderNo: a.orderNo, status: 'confirmed', fresh: true },
        { orderNo: b.orderNo, status: 'confirmed', fresh: true },
      ])
      const { payBy, ...row } = await bench.row(a.orderNo)
      const amount = { amountMinor: 3 * PRICE, currency: 'CNY' }
      deepEqual(row, { ...a, status: 'confirmed', reason: null, ...amount })
      ok(payBy > sale.opensAt, 'it has a deadline')
      const numbers = { ...refOf(sale), total: 10, available: 6, live: 4 }
      deepEqual(await bench.numbers(refOf(sale)), numbers)
    },
  },
  {
    name: 'D2: a batch that comes again, also four times at once from two processes, changes nothing',
    async check(bench) {
      const sale = await bench.sale({ units: 7 })
      const batch = bench.orders(sale, 10)
      const books = [bench.book, bench.other, bench.book, bench.other]
      const all = await Promise.all(books.map((book) => book.confirm(batch)))
      for (const verdicts of all)
        deepEqual(tally(verdicts), { confirmed: 7, 'closed: sold-out': 3 })
      equal(all.flat().filter((v) => v.fresh).length, 10, 'each number is fresh once')
      const again = await bench.book.confirm([...batch].reverse())
      equal(again.filter((v) => v.fresh).length, 0)
    },
  },
  {
    name: 'V2: sixteen batches at once sell exactly the stock, and every number has a row',
    async check(bench) {
      const sale = await bench.sale({ units: 40 })
      const batches = Array.from({ length: 16 }, (_, i) =>
        bench.orders(sale, 4, { quantity: 1 + (i % 2) }),
      )
      const verdicts = await Promise.all(
        batches.map((batch, i) => (i % 2 ? bench.book : bench.other).confirm(batch)),
      )
      equal((await bench.numbers(refOf(sale))).available, 0)
      const numbers = batches.flat().map((r) => r.orderNo)
      const rows = await bench.book.find(numbers)
      equal(rows.length, numbers.length)
      const said = verdicts.flat().map((v) => `${v.orderNo} ${v.status}`)
      deepEqual(rows.map((row) => `${row.orderNo} ${row.status}`).sort(), said.sort())
    },
  },
  {
    name: 'C05: an order too big for what is left does not keep a smaller one from the last unit',
    async check(bench) {
      const sale = await bench.sale({ units: 3 })
      const batch = [2, 2, 1, 1].map((quantity) => bench.order(sale, { quantity }))
      const words = (await bench.book.confirm(batch)).map((v) => v.status)
      deepEqual(words, ['confirmed', 'closed', 'confirmed', 'closed'])
    },
  },
  {
    name: 'C18: the second order of a buyer is closed, also of twenty at once, and his first not altered',
    async check(bench) {
      const sale = await bench.sale()
      const first = bench.order(sale, { userId: 'ann', payload: 'first' })
      await bench.book.confirm([first])
      const before = await bench.row(first.orderNo)
      const more = bench.orders(sale, 20, { userId: 'ann', quantity: 2 })
      const verdicts = await Promise.all(
        more.map((r, i) => (i % 2 ? bench.book : bench.other).confirm([r])),
      )
      deepEqual(tally(verdicts.flat()), { 'closed: already-bought': 20 })
      deepEqual(await bench.row(first.orderNo), before)
      const twins = bench.orders(sale, 2, { userId: 'bob' })
      deepEqual(tally(await bench.book.confirm(twins)), {
        confirmed: 1,
        'closed: already-bought': 1,
      })
    },
  },
  {
    name: 'C10 C11: buyers and numbers that differ in a byte are different',
    async check(bench) {
      const sale = await bench.sale()
      const users = [
        'User',
        'user',
        '007',
        '7',
        '1e5',
        '1849302938475629013',
        '~'.repeat(64),
        '"\\',
      ]
      const batch = users.map((userId) => bench.order(sale, { userId }))
      const { orderNo } = bench.order(sale)
      batch.push(bench.order(sale, { orderNo: `${orderNo}A` }))
      batch.push(bench.order(sale, { orderNo: `${orderNo}a` }))
      deepEqual(tally(await bench.book.confirm(batch)), { confirmed: batch.length })
      const rows = await bench.book.find(batch.map((r) => r.orderNo))
      deepEqual(
        rows.map((row) => [row.orderNo, row.userId]),
        batch.map((r) => [r.orderNo, r.userId]),
      )
      equal((await bench.book.findByBuyer(refOf(sale), 'USER')) ?? null, null)
    },
  },
  {
    name: 'D3: closes what names another version, too many units, or an SKU nobody prepared',
    async check(bench) {
      const sale = await bench.sale({ maxPerOrder: 2 })
      const verdicts = await bench.book.confirm([
        bench.order(sale, { version: 'v2' }),
        bench.order(sale, { quantity: 3 }),
        bench.order(sale, { skuId: 'nowhere' }),
        bench.order(sale, { quantity: 2 }),
      ])
      deepEqual(
        verdicts.map((v) => (v.status === 'closed' ? v.reason : v.status)),
        ['version-mismatch', 'over-limit', 'no-stock-row', 'confirmed'],
      )
      const tasks = (await bench.under.tasks()).map(({ kind }) => kind)
      ok(tasks.includes('no-stock-row'), 'a sale that nobody prepared is for a person')
    },
  },
  {
    name: 'D3: whoever first writes a number, confirm or closeUnbooked, decides it for ever',
    async check(bench) {
      const sale = await bench.sale()
      const pairs = await Promise.all(
        bench.orders(sale, 20).map(async (order, i) => {
          const acts = [
            () => bench.book.confirm([order]),
            () => bench.other.closeUnbooked([order], 'lost'),
          ]
          if (i % 2) acts.reverse()
          const both = (await Promise.all(acts.map((act) => act()))).flat()
          return { order, both }
        }),
      )
      for (const { order, both } of pairs) {
        equal(both.filter((v) => v.fresh).length, 1, 'one of the two decides')
        const { status } = await bench.row(order.orderNo)
        for (const said of [...both, ...(await bench.book.confirm([order]))])
          equal(said.status, status)
      }
    },
  },
  {
    name: 'stops before it begins when the signal is aborted',
    async check(bench) {
      const orders = bench.orders(await bench.sale(), 2)
      await rejects(bench.book.confirm(orders, AbortSignal.abort()))
      equal((await bench.book.find(orders.map((r) => r.orderNo))).length, 0)
    },
  },
]
