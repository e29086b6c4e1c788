import { KnexOrderBook, KnexPaymentBook } from 'flash-sale-kit/knex'
import { describe, expect, it } from 'vitest'
import { openDatabase } from '../harness/databases.js'
import { TcpProxy } from '../harness/tcp-proxy.js'
import { type Backend, openTill, PRICE, type Till, useBackend } from '../suites/payment/kit.js'

/** Payments whose connections to the database run through a proxy. */
async function throughProxy(backend: Backend, till: Till) {
  const { address } = backend.db
  if (address.kind === 'sqlite') throw new Error('SQLite has no network')
  const proxy = await TcpProxy.to(address.port)
  const knex = openDatabase(address, { port: proxy.port, poolMax: 3 })
  const limits = { knex, statementTimeoutMs: 1_000, acquireTimeoutMs: 500, maxAttempts: 3 }
  const payments = till.another({
    book: new KnexPaymentBook(limits),
    orders: new KnexOrderBook(limits),
  })
  return {
    proxy,
    payments,
    async [Symbol.asyncDispose]() {
      proxy.pass()
      await knex.destroy()
      await proxy.close()
    },
  }
}

describe.each(['mariadb', 'postgres'] as const)(
  'payments and a database in trouble: %s',
  (kind) => {
    const backend = useBackend(kind)

    it('C23 (e): while the database is down nothing is acknowledged; afterwards the same notice is applied', async () => {
      const till = await openTill(backend())
      const notice = await till.paid(await till.order('ann'))
      await using net = await throughProxy(backend(), till)
      net.proxy.cut()
      expect(await net.payments.notice(notice)).toEqual({
        status: 'retry-later',
        acknowledge: false,
      })
      expect(till.alerts).toContain('payment-notice-failed')
      net.proxy.pass()
      expect(await net.payments.notice(notice)).toEqual({ status: 'applied', acknowledge: true })
      await till.sound()
    })

    it('C16: a lost answer to COMMIT is looked up: money is placed once, a refund decided once', async () => {
      const till = await openTill(backend(), { units: 3 })
      const order = await till.order('ann')
      const late = await till.order('bob')
      const [paid, lateMoney] = [await till.paid(order), await till.paid(late)]
      await till.payments.close({ orderNo: late.orderNo, reason: 'unpaid' })
      await using net = await throughProxy(backend(), till)
      net.proxy.swallowReply({ matching: /COMMIT/ })
      expect(await net.payments.notice(paid)).toMatchObject({ acknowledge: true })
      expect((await till.row(order.orderNo)).status).toBe('paid')
      net.proxy.swallowReply({ matching: /COMMIT/ })
      expect(await net.payments.notice(lateMoney)).toMatchObject({ acknowledge: true })
      expect(await till.orders.numbers(till.ref)).toMatchObject({ live: 2, available: 1 })
      net.proxy.swallowReply({ matching: /COMMIT/ })
      const { paymentId } = paid
      const refund = { paymentId, refundId: 'lost-commit', amountMinor: 6_000, reason: 'asked for' }
      await net.payments.refund(refund)
      expect(net.proxy.counts.swallowed).toBe(3)
      expect(await till.payment(paymentId)).toMatchObject({ refundingMinor: 6_000 })
      await till.round()
      expect(till.wx.refunds()).toHaveLength(1)
      await till.sound()
    })

    it('C23 (e): a COMMIT that cannot be looked up is not acknowledged, and the repeat finds it', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const notice = await till.paid(order)
      await using net = await throughProxy(backend(), till)
      net.proxy.swallowReply({ matching: /COMMIT/, always: true })
      expect(await net.payments.notice(notice)).toEqual({
        status: 'retry-later',
        acknowledge: false,
      })
      net.proxy.pass()
      expect(await net.payments.notice(notice)).toEqual({ status: 'repeated', acknowledge: true })
      expect((await till.row(order.orderNo)).status).toBe('paid')
      // Whoever applied it never told Redis; the repeat did.
      expect(await till.stock.reservation(till.ref, 'ann')).toMatchObject({ state: 'paid' })
      expect(await till.payment(notice.paymentId)).toMatchObject({ capturedMinor: PRICE })
      await till.sound()
    })

    it('G1: Redis that does not hear of a payment or a closing holds up neither, and is told afterwards', async () => {
      const till = await openTill(backend())
      const deaf = {
        move: async () => Promise.reject(new Error('Connection is closed.')),
        reservations: till.stock.reservations.bind(till.stock),
      }
      const payments = till.another({ ledger: deaf })
      const [paid, closed] = [await till.order('ann'), await till.order('bob')]
      const notice = await till.paid(paid)
      expect(await payments.notice(notice)).toMatchObject({ status: 'applied' })
      expect(await payments.close({ orderNo: closed.orderNo, reason: 'risk' })).toMatchObject({
        status: 'closed',
      })
      expect(till.alerts).toEqual(['payment-redis-failed', 'payment-redis-failed'])
      expect(await till.payments.notice(notice)).toMatchObject({ status: 'repeated' })
      // What Redis is owed for the closing waits in the outbox, from where the relay takes it.
      await till.knex('local_message').update({ next_retry_time: 1 })
      await till.sound()
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 9, sold: 1 })
    })
  },
)
