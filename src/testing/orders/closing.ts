import { deepEqual, equal, ok } from 'node:assert/strict'
import type { OrderBookCheck } from '../order-book-suite.js'
import { LONG_MS, refOf, tally } from './bench.js'

export const closing: readonly OrderBookCheck[] = [
  {
    name: 'D3: closeUnbooked closes what has no row and leaves a confirmed order alone',
    async check(bench) {
      const sale = await bench.sale()
      const [a, b] = [bench.order(sale), bench.order(sale)]
      await bench.book.confirm([a])
      deepEqual(await bench.book.closeUnbooked([a, b], 'send-rejected'), [
        { orderNo: a.orderNo, status: 'confirmed', fresh: false },
        { orderNo: b.orderNo, status: 'closed', reason: 'send-rejected', fresh: true },
      ])
      const late = { orderNo: b.orderNo, status: 'closed', reason: 'send-rejected', fresh: false }
      deepEqual(await bench.book.confirm([b]), [late])
      equal((await bench.numbers(refOf(sale))).live, 1)
    },
  },
  {
    name: 'P2: closeUnpaid gives the units back and frees the buyer; unknown numbers are left out',
    async check(bench) {
      const sale = await bench.sale({ units: 2 })
      const [a, b] = [bench.order(sale), bench.order(sale)]
      await bench.book.confirm([a, b])
      const numbers = [a.orderNo, b.orderNo, 'never-seen']
      deepEqual(tally(await bench.book.closeUnpaid(numbers, 'unpaid')), { 'closed: unpaid': 2 })
      equal((await bench.numbers(refOf(sale))).available, 2)
      const again = await bench.book.closeUnpaid(numbers, 'other')
      deepEqual(tally(again), { 'closed: unpaid': 2 }, 'the first reason stays')
      equal(again.filter((v) => v.fresh).length, 0)
      const next = bench.order(sale, { userId: a.userId })
      deepEqual(tally(await bench.book.confirm([next])), { confirmed: 1 })
    },
  },
  {
    name: 'C21: eight closes of the same orders at once give each unit back once',
    async check(bench) {
      const sale = await bench.sale({ units: 12 })
      const orders = bench.orders(sale, 12)
      await bench.book.confirm(orders)
      const numbers = orders.map((r) => r.orderNo)
      const all = await Promise.all(
        [1, 2, 3, 4, 5, 6, 7, 8].map((i) =>
          (i % 2 ? bench.book : bench.other).closeUnpaid(numbers, 'unpaid'),
        ),
      )
      equal(all.flat().filter((v) => v.fresh).length, 12)
      equal((await bench.numbers(refOf(sale))).available, 12)
    },
  },
  {
    name: 'C21: a payment and a close of one order: one wins, and the units follow it',
    async check(bench) {
      const sale = await bench.sale({ units: 16 })
      const orders = bench.orders(sale, 16)
      await bench.book.confirm(orders)
      const paid = await Promise.all(
        orders.map(async ({ orderNo }, i) => {
          const acts = [
            () => bench.under.pay(orderNo),
            () => bench.book.closeUnpaid([orderNo], 'unpaid'),
          ]
          if (i % 2) acts.reverse()
          await Promise.all(acts.map((act) => act()))
          return (await bench.row(orderNo)).status === 'paid'
        }),
      )
      const live = paid.filter(Boolean).length
      deepEqual((await bench.numbers(refOf(sale))).live, live)
      const verdicts = await bench.book.closeUnpaid(
        orders.map((r) => r.orderNo),
        'again',
      )
      equal(verdicts.filter((v) => v.fresh).length, 0)
      equal(verdicts.filter((v) => v.status === 'paid').length, live, 'a paid order stays paid')
    },
  },
  {
    name: 'D3: what Redis is owed of every closed order is offered until it was told, to one taker at a time',
    async check(bench) {
      const sale = await bench.sale({ units: 4 })
      const [booked, refused] = [bench.orders(sale, 4), bench.orders(sale, 2)]
      await bench.book.confirm([...booked, ...refused])
      const lost = bench.orders(sale, 3)
      await bench.book.closeUnbooked(lost, 'lost')
      await bench.book.closeUnpaid([booked[0]?.orderNo ?? ''], 'unpaid')
      const closed = [...refused, ...lost, ...booked.slice(0, 1)]
      const owed = await bench.owed(sale)
      const numbersOf = (list: readonly { readonly orderNo: string }[]) =>
        list.map((r) => r.orderNo).sort()
      deepEqual(numbersOf(owed.map((r) => r.reservation)), numbersOf(closed))
      for (const { reservation, reason } of owed) {
        const { userId, quantity, bucket, version } = await bench.row(reservation.orderNo)
        deepEqual(
          { ...reservation, userId, quantity, bucket, version, ...refOf(sale) },
          reservation,
          'a release says whose units they are and where they came from',
        )
        ok(['sold-out', 'lost', 'unpaid'].includes(reason), reason)
      }
      const told = numbersOf(lost)
      for (let i = 0; i < 2; i++) await bench.book.released(told)
      const rest = numbersOf((await bench.owed(sale)).map((r) => r.reservation))
      deepEqual(
        rest,
        numbersOf(closed).filter((no) => !told.includes(no)),
      )
    },
  },
  {
    name: 'D3: a release that Redis did not take is offered again; who lost his lease changes nothing',
    async check(bench) {
      const sale = await bench.sale()
      await bench.book.closeUnbooked(bench.orders(sale, 1), 'lost')
      const [first] = await bench.owed(sale)
      const [second] = await bench.owed(sale)
      if (!first || !second) return ok(false, 'it is offered again once the lease is over')
      deepEqual(await bench.other.retryReleases([first], 'late'), [])
      deepEqual(await bench.book.takeReleases({ limit: 100, leaseMs: LONG_MS }), [])
      await bench.book.retryReleases([second], 'Redis is away')
      equal((await bench.owed(sale)).length, 1)
    },
  },
  {
    name: 'R2: numbers whose release is owed for long are named, those of other SKUs and young ones not',
    async check(bench) {
      const sale = await bench.sale({ skuCount: 2 })
      const [old] = bench.orders(sale, 1)
      await bench.book.closeUnbooked(old ? [old] : [], 'lost')
      await bench.book.closeUnbooked([bench.order(sale, { skuId: 's2' })], 'lost')
      const named = (olderThanMs: number) =>
        bench.book.owedReleases(refOf(sale), { olderThanMs, limit: 10 })
      deepEqual(await named(600_000), [])
      await bench.under.passTime(LONG_MS)
      deepEqual(await named(600_000), [old?.orderNo])
      await bench.book.released([old?.orderNo ?? ''])
      deepEqual(await named(0), [])
    },
  },
]
