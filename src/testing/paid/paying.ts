import { deepEqual, equal, fail, ok, rejects } from 'node:assert/strict'
import type { PaymentHooksCheck } from '../payment-hooks-suite.js'

const UNDONE = 'undone by the suite'

export const paying: readonly PaymentHooksCheck[] = [
  {
    name: 'P1: a paid order is begun once, those beside it are not',
    async check(bench) {
      const till = await bench.till()
      const [paid, unpaid] = await till.orders(2)
      if (!paid || !unpaid) return fail('no orders')
      await bench.begun(paid.orderNo, 0, 'being confirmed')
      equal((await till.pay(paid)).status, 'applied')
      await bench.begun(paid.orderNo, 1, 'being paid')
      await bench.begun(unpaid.orderNo, 0, 'another being paid')
    },
  },
  {
    name: 'P1: money that is reported again, also at once, begins nothing more',
    async check(bench) {
      const till = await bench.till()
      const [money] = await till.orders(1)
      if (!money) return fail('no orders')
      await Promise.all([1, 2, 3].map(() => till.pay(money)))
      equal((await till.pay(money)).status, 'applied')
      await bench.begun(money.orderNo, 1, 'being reported four times')
    },
  },
  {
    name: 'P1: of two orders paid at once each is begun once',
    async check(bench) {
      const till = await bench.till()
      const orders = await till.orders(6)
      const captured = await Promise.all(orders.map((money) => till.pay(money)))
      deepEqual(new Set(captured.map((c) => c.status)), new Set(['applied']))
      for (const { orderNo } of orders) await bench.begun(orderNo, 1, 'being paid beside others')
    },
  },
  {
    name: 'P1: begins again once it was undone',
    async check(bench) {
      const till = await bench.till({
        paid(run) {
          if (run <= 2) throw new Error(UNDONE)
        },
      })
      const [money] = await till.orders(1)
      if (!money) return fail('no orders')
      equal((await till.pay(money)).status, 'waiting', 'money whose order could not be begun')
      await bench.begun(money.orderNo, 0, 'being undone')
      equal((await till.pay(money)).status, 'waiting', 'money whose order could not be begun')
      equal((await till.pay(money)).status, 'applied', 'the third time')
      await bench.begun(money.orderNo, 1, 'being undone twice')
    },
  },
  {
    name: 'P2: money that comes too late begins the new order that it bought, not the closed one',
    async check(bench) {
      const told: (string | null)[] = []
      const till = await bench.till({ paid: (_, { insteadOf }) => void told.push(insteadOf) })
      const [money] = await till.orders(1)
      if (!money) return fail('no orders')
      await till.letItPass(money)
      const captured = await till.pay(money)
      if (captured.status !== 'applied') return fail(`late money is ${captured.status}`)
      ok(captured.late && captured.order.orderNo !== money.orderNo, 'it bought no new order')
      deepEqual(told, [money.orderNo])
      await bench.begun(captured.order.orderNo, 1, 'being paid late')
      await bench.begun(money.orderNo, 0, 'its money having bought another')
    },
  },
  {
    name: 'P2: an order whose money goes back is taken back, once',
    needs: ['refunds'],
    async check(bench) {
      const till = await bench.till()
      const [back, kept] = await till.orders(2)
      if (!back || !kept) return fail('no orders')
      await till.pay(back)
      await till.pay(kept)
      for (const _ of [1, 2]) {
        equal((await till.refund(back, `r-${back.paymentId}`)).status, 'refunding')
        await bench.begun(back.orderNo, 0, 'its refund')
      }
      await bench.begun(kept.orderNo, 1, "another's refund")
    },
  },
  {
    name: 'P2: a refund that is undone leaves the order as it was, and takes it back the next time',
    needs: ['refunds'],
    async check(bench) {
      const till = await bench.till({
        refunded(run) {
          if (run === 1) throw new Error(UNDONE)
        },
      })
      const [money] = await till.orders(1)
      if (!money) return fail('no orders')
      await till.pay(money)
      await rejects(till.refund(money, `r-${money.paymentId}`))
      await bench.begun(money.orderNo, 1, 'a refund that was undone')
      equal((await till.refund(money, `r-${money.paymentId}`)).status, 'refunding')
      await bench.begun(money.orderNo, 0, 'its refund')
    },
  },
]
