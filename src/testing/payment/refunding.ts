import { deepEqual, equal, notEqual } from 'node:assert/strict'
import type { PaymentProviderCheck } from '../payment-provider-suite.js'

/** Of a payment of 9,900. */
const [MOST, REST] = [6_000, 3_900]

export const refunding: readonly PaymentProviderCheck[] = [
  {
    name: 'C25: a refund nobody asked for is unknown; one that was made stays made',
    async check(bench) {
      const refund = bench.refundOf(await bench.bought(), MOST)
      deepEqual(await bench.queryRefund(refund), { status: 'none' })
      equal(await bench.refunded(refund), 'refunded')
      for (let i = 0; i < 2; i++) equal((await bench.queryRefund(refund)).status, 'refunded')
    },
  },
  {
    name: 'C25: the same refund, one after the other and five times at once, gives the money back once',
    async check(bench) {
      const bought = await bench.bought()
      const refund = bench.refundOf(bought, MOST)
      for (let i = 0; i < 2; i++) equal(await bench.refunded(refund), 'refunded')
      await Promise.allSettled([1, 2, 3, 4, 5].map(() => bench.refunded(refund)))
      // Made twice, it would have left less than this.
      equal(await bench.refunded(bench.refundOf(bought, REST)), 'refunded', 'the rest is there')
    },
  },
  {
    name: 'C25: the same refund for another amount gives nothing more back',
    async check(bench) {
      const bought = await bench.bought()
      const refund = bench.refundOf(bought, MOST)
      equal(await bench.refunded(refund), 'refunded')
      await bench.refund({ ...refund, amountMinor: REST }).catch(() => undefined)
      equal(await bench.refunded(bench.refundOf(bought, REST)), 'refunded', 'the rest is there')
    },
  },
  {
    name: 'C25: no more goes back than came in, also at once',
    async check(bench) {
      const bought = await bench.bought()
      const twice = [1, 2].map(() => bench.refundOf(bought, MOST))
      const ends = await Promise.all(twice.map((refund) => bench.refunded(refund)))
      deepEqual(ends.sort(), ['refunded', 'refused'])
      equal(await bench.refunded(bench.refundOf(bought, REST + 1)), 'refused')
      equal(await bench.refunded(bench.refundOf(bought, REST)), 'refunded')
      equal(await bench.refunded(bench.refundOf(bought, 1)), 'refused')
    },
  },
  {
    name: 'C24: refunds are whole minor units too',
    async check(bench) {
      for (const currency of bench.under.currencies) {
        const bought = await bench.bought({ currency, amountMinor: 1_999 })
        for (const part of [1, 1_139, 859])
          equal(await bench.refunded(bench.refundOf(bought, part)), 'refunded')
        equal(await bench.refunded(bench.refundOf(bought, 1)), 'refused', 'all of it is back')
      }
    },
  },
  {
    name: 'C25: money that never came does not go back',
    async check(bench) {
      const other = await bench.bought()
      const request = bench.request()
      await bench.made(request)
      const paid = { ...other.paid, tradeNo: 'never' }
      const refund = bench.refundOf({ request, paid }, 1)
      let end = 'thrown'
      try {
        end = await bench.refunded(refund)
      } catch (error) {
        // A definite no is better; but what is thrown is asked about, and gives nothing away.
        if ((error as { code?: unknown }).code === 'ERR_ASSERTION') throw error
      }
      notEqual(end, 'refunded')
      equal(await bench.refunded(bench.refundOf(other, other.request.amountMinor)), 'refunded')
    },
  },
]
