import { deepEqual, equal, notEqual } from 'node:assert/strict'
import { newOrderNo } from '../../core/order-no.js'
import type { PaymentProviderCheck } from '../payment-provider-suite.js'

/** Amounts that a detour over floats, or over a currency's major unit, changes: 19.99 × 100 is 1998.9999999999998. */
const AMOUNTS = [1, 9, 10, 99, 110, 1_999, 2_901, 9_900, 113_899, 12_345_678]
/** ISO 4217's code for tests: no channel takes it. */
const NO_CURRENCY = 'XTS'

export const paying: readonly PaymentProviderCheck[] = [
  {
    name: 'P1: a payment is open until the buyer pays it, and then the channel says what it has',
    async check(bench) {
      const request = bench.request()
      const cashier = await bench.made(request)
      deepEqual(JSON.parse(JSON.stringify(cashier)), cashier, 'the cashier is stored as JSON')
      equal((await bench.query(request.paymentId)).status, 'open')
      equal(await bench.under.pay(request.paymentId, cashier), true, 'the buyer can pay')
      const paid = await bench.money(request.paymentId)
      deepEqual([paid.amountMinor, paid.currency], [request.amountMinor, request.currency])
      deepEqual(await bench.money(request.paymentId), paid, 'the same each time it is asked')
    },
  },
  {
    name: 'P1: the same payment asked for again, also four times at once, is one payment',
    async check(bench) {
      const request = bench.request()
      const cashiers = await Promise.all([1, 2, 3, 4].map(() => bench.made(request)))
      cashiers.push(await bench.made(request))
      let times = 0
      for (const cashier of cashiers) if (await bench.under.pay(request.paymentId, cashier)) times++
      equal(times, 1, 'the buyer can pay it once')
      const { tradeNo } = await bench.money(request.paymentId)
      notEqual(tradeNo, '')
    },
  },
  {
    name: 'P1: another amount under a number that is taken does not change the payment that is there',
    async check(bench) {
      const request = bench.request()
      const cashier = await bench.made(request)
      // Refused, thrown or answered with the first: all are right, a second payment is not.
      await bench.create({ ...request, amountMinor: 1 }).catch(() => undefined)
      equal(await bench.under.pay(request.paymentId, cashier), true)
      equal((await bench.money(request.paymentId)).amountMinor, request.amountMinor)
    },
  },
  {
    name: 'P1: a number nobody made a payment of is unknown, which is an answer and no error',
    async check(bench) {
      await bench.bought()
      deepEqual(await bench.query(newOrderNo()), { status: 'none' })
    },
  },
  {
    name: 'C24: amounts are whole minor units, there and back, in each currency',
    async check(bench) {
      for (const currency of bench.under.currencies)
        for (const amountMinor of AMOUNTS) {
          const { paid } = await bench.bought({ currency, amountMinor })
          deepEqual([paid.amountMinor, paid.currency], [amountMinor, currency])
        }
    },
  },
  {
    name: 'C24: a currency that the channel does not take is refused, and no payment made',
    async check(bench) {
      const request = bench.request({ currency: NO_CURRENCY })
      const answer = await bench.create(request)
      equal(answer.status, 'refused', 'thrown, it would be unknown, and asked for again')
      notEqual((await bench.query(request.paymentId)).status, 'open')
    },
  },
  {
    name: 'P2: nobody can pay a payment that was closed; closed again, it is closed',
    async check(bench) {
      const request = bench.request()
      const cashier = await bench.made(request)
      for (let i = 0; i < 2; i++)
        deepEqual(await bench.closePayment(request.paymentId), { status: 'closed' })
      equal(await bench.under.pay(request.paymentId, cashier), false, 'the buyer cannot pay')
      deepEqual(await bench.query(request.paymentId), { status: 'closed' })
      deepEqual(
        await bench.closePayment(newOrderNo()),
        { status: 'closed' },
        'also what was never made',
      )
    },
  },
  {
    name: 'P2: closing a payment that came first says that it is paid',
    async check(bench) {
      const { request, paid } = await bench.bought()
      deepEqual(await bench.closePayment(request.paymentId), paid)
      deepEqual(await bench.money(request.paymentId), paid)
    },
  },
  {
    name: 'C24: the channel’s own numbers tell payments apart',
    async check(bench) {
      const all = [await bench.bought(), await bench.bought(), await bench.bought()]
      equal(new Set(all.map(({ paid }) => paid.tradeNo)).size, 3)
    },
  },
]
