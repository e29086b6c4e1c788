import { deepEqual, equal, fail, ok } from 'node:assert/strict'
import { within } from '../../core/background.js'
import type { ChannelFault, PaymentProviderCheck } from '../payment-provider-suite.js'

/** A channel that did nothing and says nothing: an adapter that makes a definite answer of it loses money. */
function undone(fault: ChannelFault): PaymentProviderCheck {
  return {
    name: `P1: with a channel that is ${fault} every call throws, and can be made afterwards`,
    needs: [fault],
    async check(bench) {
      const request = bench.request()
      await bench.throws('create', fault, () => bench.create(request))
      deepEqual(await bench.query(request.paymentId), { status: 'none' })
      const cashier = await bench.made(request)
      await bench.throws('query', fault, () => bench.query(request.paymentId))
      await bench.throws('close', fault, () => bench.closePayment(request.paymentId))
      equal(await bench.under.pay(request.paymentId, cashier), true, 'it was not closed')
      const bought = { request, paid: await bench.money(request.paymentId) }
      const refund = bench.refundOf(bought, 9_900)
      await bench.throws('refund', fault, () => bench.refund(refund))
      deepEqual(await bench.queryRefund(refund), { status: 'none' })
      equal(await bench.refunded(refund), 'refunded')
      await bench.throws('queryRefund', fault, () => bench.queryRefund(refund))
    },
  }
}

export const faults: readonly PaymentProviderCheck[] = [
  undone('unreached'),
  undone('server-error'),
  {
    name: 'P1: a create whose answer is lost throws; the look finds the payment, and a repeat is that payment',
    needs: ['lost-answer'],
    async check(bench) {
      const request = bench.request()
      await bench.throws('create', 'lost-answer', () => bench.create(request))
      const found = await bench.query(request.paymentId)
      if (found.status !== 'open') fail(`query answered ${found.status}, not open`)
      const cashiers = [found.cashier, await bench.made(request)]
      let times = 0
      for (const cashier of cashiers) if (await bench.under.pay(request.paymentId, cashier)) times++
      equal(times, 1, 'the buyer can pay once')
      await bench.money(request.paymentId)
    },
  },
  {
    name: 'P2: a close whose answer is lost throws, and is done',
    needs: ['lost-answer'],
    async check(bench) {
      const request = bench.request()
      const cashier = await bench.made(request)
      await bench.throws('close', 'lost-answer', () => bench.closePayment(request.paymentId))
      equal(await bench.under.pay(request.paymentId, cashier), false)
      deepEqual(await bench.closePayment(request.paymentId), { status: 'closed' })
    },
  },
  {
    name: 'C25: a refund whose answer is lost throws; the look finds it, and a repeat gives nothing more back',
    needs: ['lost-answer'],
    async check(bench) {
      const bought = await bench.bought()
      const refund = bench.refundOf(bought, 6_000)
      await bench.throws('refund', 'lost-answer', () => bench.refund(refund))
      const found = await bench.queryRefund(refund)
      if (found.status === 'none') fail('queryRefund answered none: it was made')
      equal(await bench.end(refund, found), 'refunded')
      equal(await bench.refunded(refund), 'refunded')
      equal(await bench.refunded(bench.refundOf(bought, 3_900)), 'refunded', 'the rest is there')
    },
  },
  {
    name: 'a call that nobody answers ends with its signal, and with a throw',
    needs: ['silent'],
    async check(bench) {
      const { patienceMs } = bench.under
      const { request } = await bench.bought()
      bench.under.fail?.('query', 'silent')
      const abort = new AbortController()
      const running = bench.provider.query(request.paymentId, { signal: abort.signal }).then(
        ({ status }) => `it answered ${status}`,
        () => 'it threw',
      )
      const early = await within(running, 100, () => 'it waits')
      equal(early, 'it waits', 'before the signal')
      abort.abort()
      const end = await within(running, patienceMs, () => 'it hangs')
      equal(end, 'it threw', `within ${patienceMs} ms after the signal`)
      ok(await bench.money(request.paymentId), 'the next call is answered')
    },
  },
]
