import { type FlashSaleError, newOrderNo, Payments, type PaymentsOptions } from 'flash-sale-kit'
import { KnexPaymentBook } from 'flash-sale-kit/knex'
import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { openTill, PRICE, type Till, useBackend } from './kit.js'

const LONG = 'x'.repeat(10_000)
const BAD_IDS: readonly unknown[] = [undefined, null, '', LONG, 'a b', 'a|b', 7, Number.NaN, {}, []]

/** Every method with one argument spoilt. */
function spoilt(till: Till): readonly (readonly [string, () => Promise<unknown>])[] {
  const { payments, book, ref } = till
  const orderNo = newOrderNo()
  const [create, cancel] = [
    { orderNo, userId: 'ann', channel: 'wx' },
    { ...ref, orderNo, userId: 'ann' },
  ]
  const back = { paymentId: orderNo, refundId: orderNo, amountMinor: 1, reason: 'r' }
  const notice = {
    ...{ channel: 'wx', paymentId: orderNo, tradeNo: orderNo, amountMinor: 1, currency: 'CNY' },
    verified: true,
  }
  const charge = { channel: 'wx', tradeNo: orderNo, chargebackId: orderNo, amountMinor: 1 }
  const capture = { ...notice, userId: null, order: null, confirmed: false }
  const how = { latePayment: 'refund', newOrderNo: orderNo, newPaymentId: orderNo } as const
  const calls: [string, (bad: never) => Promise<unknown>][] = [
    ['create.orderNo', (bad) => payments.create({ ...create, orderNo: bad })],
    ['create.userId', (bad) => payments.create({ ...create, userId: bad })],
    ['create.channel', (bad) => payments.create({ ...create, channel: bad })],
    ['create', (bad) => payments.create(bad)],
    ['cancel.orderNo', (bad) => payments.cancel({ ...cancel, orderNo: bad })],
    ['cancel.skuId', (bad) => payments.cancel({ ...cancel, skuId: bad })],
    ['cancel', (bad) => payments.cancel(bad)],
    ['close.orderNo', (bad) => payments.close({ orderNo: bad, reason: 'risk' })],
    ['refund.refundId', (bad) => payments.refund({ ...back, refundId: bad })],
    ['refund.paymentId', (bad) => payments.refund({ ...back, paymentId: bad })],
    ['refund', (bad) => payments.refund(bad)],
    ['chargeback.tradeNo', (bad) => payments.chargeback({ ...charge, tradeNo: bad })],
    ['chargeback.channel', (bad) => payments.chargeback({ ...charge, channel: bad })],
    ['notice', (bad) => payments.notice(bad)],
    ['notice.channel', (bad) => payments.notice({ ...notice, channel: bad })],
    ['notice.paymentId', (bad) => payments.notice({ ...notice, paymentId: bad })],
    ['notice.tradeNo', (bad) => payments.notice({ ...notice, tradeNo: bad })],
    [
      'notice.order.orderNo',
      (bad) => payments.notice({ ...notice, userId: 'ann', order: { ...ref, orderNo: bad } }),
    ],
    [
      'capture.userId of a named order',
      (bad) => payments.notice({ ...notice, userId: bad, order: { ...ref, orderNo } }),
    ],
    ['book.open', (bad) => book.open({ ...create, paymentId: bad, leaseMs: 1 })],
    ['book.capture', (bad) => book.capture({ ...capture, tradeNo: bad }, how)],
    ['book.opened', (bad) => book.opened(bad, {})],
    ['book.findTrade', (bad) => book.findTrade('wx', bad)],
    ['book.findPayment', (bad) => book.findPayment(bad)],
    ['book.hasten', (bad) => book.hasten([bad])],
    ['book.find', (bad) => book.find([bad])],
  ]
  return calls.flatMap(([name, call]) =>
    BAD_IDS.map((bad) => [`${name} ${String(bad).slice(0, 9)}`, () => call(bad as never)] as const),
  )
}

export function inputSuite(kind: DatabaseKind): void {
  describe(`payments’ input on ${kind}`, () => {
    const backend = useBackend(kind)

    it('refuses what is no id with BAD_INPUT, in words of bounded length, and writes nothing', async () => {
      const till = await openTill(backend())
      const before = await till.knex('seckill_payment').count({ n: '*' })
      for (const [name, call] of spoilt(till)) {
        const error = (await call().then(
          () => null,
          (thrown) => thrown,
        )) as FlashSaleError | null
        expect(error?.code, name).toBe('BAD_INPUT')
        expect(error?.message.length, name).toBeLessThan(300)
      }
      expect(await till.knex('seckill_payment').count({ n: '*' })).toEqual(before)
      expect(till.wx.calls).toEqual({ create: 0, query: 0, close: 0, refund: 0, queryRefund: 0 })
    })

    it('refuses leases, limits, reasons and cashiers out of bounds', async () => {
      const { book, payments, orders } = await openTill(backend())
      const bad = { code: 'BAD_INPUT' }
      for (const n of [0, -1, 1.5, '1', Number.NaN, 1e10]) {
        const wrong = n as number
        await expect(book.takePayments({ limit: wrong, leaseMs: 1 })).rejects.toMatchObject(bad)
        await expect(book.takeRefunds({ limit: 1, leaseMs: wrong })).rejects.toMatchObject(bad)
        await expect(book.overdue({ limit: wrong })).rejects.toMatchObject(bad)
        const after = { payBy: wrong, orderNo: n === 0 ? '' : 'o' }
        if (n !== 1e10) await expect(book.overdue({ limit: 1, after })).rejects.toMatchObject(bad)
        if (n !== 0) await expect(book.withdrawn('p', wrong)).rejects.toMatchObject(bad)
      }
      await expect(book.opened('p', 'x'.repeat(60_001))).rejects.toMatchObject(bad)
      await expect(book.opened('p', undefined as never)).rejects.toMatchObject(bad)
      for (const reason of ['', LONG, undefined, 'refunded'])
        await expect(
          payments.close({ orderNo: 'o', reason: reason as string }),
        ).rejects.toMatchObject(bad)
      await expect(orders.closeUnpaid(['o'], 'refunded')).rejects.toMatchObject(bad)
    })

    it('refuses options that are none in the constructor, naming option and value', async () => {
      const till = await openTill(backend())
      const wrong: readonly (readonly [string, Partial<Record<keyof PaymentsOptions, unknown>>])[] =
        [
          ['book', { book: undefined }],
          ['orders', { orders: null }],
          ['ledger', { ledger: 'redis' }],
          ['providers', { providers: [] }],
          ['providers', { providers: [till.wx, till.wx] }],
          ['providers', { providers: [{ channel: LONG }] }],
          ['latePayment', { latePayment: 'maybe' }],
          ['graceMs', { graceMs: -1 }],
          ['graceMs', { graceMs: '10' }],
          ['callTimeoutMs', { callTimeoutMs: 0 }],
          ['events.onAlert', { events: { onAlert: 'log' } }],
        ]
      for (const [name, o] of wrong)
        expect(() => till.another(o as Partial<PaymentsOptions>), name).toThrow(
          expect.objectContaining({
            code: 'BAD_OPTION',
            message: expect.stringContaining(`option ${name}`),
          }),
        )
      expect(() => new Payments(undefined as never)).toThrow(
        expect.objectContaining({ code: 'BAD_INPUT' }),
      )
      const { knex } = till
      expect(() => new KnexPaymentBook({ knex, onePer: 'user' as never })).toThrow(/option onePer/)
      for (const o of [{ everyMs: 1 }, { concurrency: 0 }, { channelGraceMs: -1 }])
        expect(() => till.payments.keeper(o)).toThrow(/option/)
    })

    it('an answer of a channel that nobody can read counts as none', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const lying = (answer: unknown) =>
        till.another({
          providers: [
            {
              channel: 'wx',
              create: async () => answer as never,
              query: async () => answer as never,
              close: async () => answer as never,
              refund: async () => answer as never,
              queryRefund: async () => answer as never,
            },
          ],
        })
      const paid = { status: 'paid', tradeNo: 't', amountMinor: PRICE, currency: 'CNY' }
      const cashiers = [undefined, { html: 'x'.repeat(60_001) }, { id: 2 ** 53 }, 1n]
      const unstorable = cashiers.flatMap((cashier) => [
        { status: 'created', cashier },
        { status: 'open', cashier },
      ])
      const odd = [null, 'created', {}, { status: 'ok' }, { ...paid, amountMinor: '1' }]
      for (const answer of [...odd, ...unstorable]) {
        till.alerts.length = 0
        const question = { orderNo: order.orderNo, userId: 'ann', channel: 'wx' }
        expect(await lying(answer).create(question)).toMatchObject({ status: 'unknown' })
        expect(till.alerts).toEqual(['payment-channel-unreadable'])
        await till.knex('seckill_payment').where({ order_no: order.orderNo }).update({ next_at: 1 })
        await lying(answer).keeper().run()
        expect(till.alerts).not.toContain('payment-keeper-failed')
        await till.knex('seckill_payment').where({ order_no: order.orderNo }).update({ next_at: 1 })
        expect(await till.book.find([order.orderNo])).toMatchObject([{ status: 'created' }])
      }
    })
  })
}
