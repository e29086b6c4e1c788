import { newOrderNo, type PaymentNotice } from 'flash-sale-kit'
import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { direct, openTill, PRICE, tally, useBackend } from './kit.js'

/** What a host's hook may throw, and what a column does not hold. */
const HOOK_ERRORS: readonly (readonly [string, unknown])[] = [
  ['short', new Error('no')],
  ['longer than a column', new Error(`insert into \`fulfilment\`: ${'x'.repeat(400)}`)],
  ['much longer', new Error('x'.repeat(100_000))],
  ['with what no database stores', new Error(`\0 \ud800 ${'\u{1f4b0}'.repeat(200)}`)],
  ['no error', 'x'.repeat(300)],
]

export function noticeSuite(kind: DatabaseKind): void {
  describe(`payment notices on ${kind}`, () => {
    const backend = useBackend(kind)

    it('P1: CONFIRMED becomes PAID by its payment, in Redis too, and a repeat changes nothing', async () => {
      const fulfilled: string[] = []
      const till = await openTill(backend(), {
        book: {
          hooks: {
            async onPaid(_, order, payment) {
              fulfilled.push(`${order.orderNo} ${order.amountMinor} ${payment.insteadOf}`)
            },
          },
        },
      })
      const order = await till.order('ann')
      const notice = await till.paid(order)
      expect(await till.payments.notice(notice)).toEqual({ status: 'applied', acknowledge: true })
      expect(await till.payments.notice(notice)).toEqual({ status: 'repeated', acknowledge: true })
      expect((await till.row(order.orderNo)).status).toBe('paid')
      expect(await till.stock.reservation(till.ref, 'ann')).toMatchObject({ state: 'paid' })
      expect(await till.payment(notice.paymentId)).toMatchObject({
        status: 'paid',
        paidOrderNo: order.orderNo,
        capturedMinor: PRICE,
        tradeNo: notice.tradeNo,
      })
      expect(fulfilled).toEqual([`${order.orderNo} ${PRICE} null`])
      await till.sound()
    })

    it('C23 (d): eight copies at once are one transition and one fulfilment', async () => {
      const fulfilled: string[] = []
      const hooks = {
        onPaid: async (_: unknown, order: { orderNo: string }) => {
          fulfilled.push(order.orderNo)
        },
      }
      const till = await openTill(backend(), { book: { hooks } })
      const order = await till.order('ann')
      const notice = await till.paid(order)
      const both = [till.payments, till.another()]
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, i) => both[i % 2]?.notice(notice)),
      )
      expect(tally(answers.filter((a) => a !== undefined))).toEqual({ applied: 1, repeated: 7 })
      // The hook may run again when its transaction is undone; what it wrote is there once. Here it only counts orders.
      expect(new Set(fulfilled)).toEqual(new Set([order.orderNo]))
      await till.sound()
    })

    it('C23 (d): what the hook writes is there once, and not at all while the money is only kept', async () => {
      const { knex } = backend().db
      await knex.schema.createTable('fulfilment', (t) => {
        t.string('order_no', 64)
      })
      let broken = true
      const till = await openTill(backend(), {
        book: {
          hooks: {
            async onPaid(trx, order) {
              await trx('fulfilment').insert({ order_no: order.orderNo })
              if (broken) throw new Error('the host cannot')
            },
          },
        },
      })
      const order = await till.order('ann')
      const notice = await till.paid(order)
      expect(await till.payments.notice(notice)).toEqual({
        status: 'retry-later',
        acknowledge: false,
      })
      expect((await till.row(order.orderNo)).status).toBe('confirmed')
      expect(await till.tasks('payment-hook')).toBe(1)
      expect(await knex('fulfilment')).toEqual([])
      // Its money is here, so the deadline does not close it.
      await till.expire(order.orderNo)
      await till.round()
      expect((await till.row(order.orderNo)).status).toBe('confirmed')
      broken = false
      await Promise.all([till.payments.notice(notice), till.payments.notice(notice), till.round()])
      expect((await till.row(order.orderNo)).status).toBe('paid')
      expect(await knex('fulfilment')).toEqual([{ order_no: order.orderNo }])
      await till.sound()
      await knex.schema.dropTable('fulfilment')
    })

    it.each(HOOK_ERRORS)(
      'C23 (d): money is kept whatever the hook throws: %s',
      async (_, thrown) => {
        let broken = true
        const onPaid = async () => {
          if (broken) throw thrown
        }
        const till = await openTill(backend(), { book: { hooks: { onPaid } } })
        const order = await till.order('ann')
        const notice = direct(till, order)
        const later = { status: 'retry-later', acknowledge: false }
        expect(await till.payments.notice(notice)).toEqual(later)
        expect(till.alerts).toEqual([])
        expect((await till.payment(notice.paymentId)).status).toBe('received')
        const task = await till.knex('seckill_manual_task').where({ ref: notice.paymentId }).first()
        const { error } = JSON.parse(task.detail)
        expect(error.length).toBeGreaterThan(Math.min(300, String(thrown).length - 1))
        await till.expire(order.orderNo)
        await till.round()
        expect((await till.row(order.orderNo)).status).toBe('confirmed')
        // Dealt with, but it throws again; then it does not.
        await till.resolveTasks('payment-hook')
        await till.round()
        expect(await till.openTasks('payment-hook')).toBe(1)
        broken = false
        await till.round()
        expect((await till.row(order.orderNo)).status).toBe('paid')
        expect(await till.openTasks('payment-hook')).toBe(0)
        await till.sound()
      },
    )

    it('C23 (a): money for a number whose message is still queued is kept, and applied once the row is there', async () => {
      const till = await openTill(backend())
      const held = await till.held('ann')
      const notice = direct(till, held)
      const later = { status: 'retry-later', acknowledge: false }
      expect(await till.payments.notice(notice)).toEqual(later)
      expect(await till.payments.notice(notice)).toEqual(later)
      expect((await till.payment(notice.paymentId)).status).toBe('received')
      await till.round()
      expect((await till.payment(notice.paymentId)).status).toBe('received')
      await till.orders.confirm([held])
      await till.round()
      expect((await till.row(held.orderNo)).status).toBe('paid')
      expect(await till.payments.notice(notice)).toMatchObject({ status: 'repeated' })
      expect(await till.stock.reservation(till.ref, 'ann')).toMatchObject({ state: 'paid' })
      await till.sound()
    })

    it('C23 (b): a callback and the commit of its order at the same moment end in one PAID order', async () => {
      const till = await openTill(backend(), { units: 12 })
      for (let i = 0; i < 12; i++) {
        const held = await till.held(`u${i}`)
        const notice = direct(till, held)
        await Promise.all([
          till.orders.confirm([held]),
          till.payments.notice(notice),
          till.payments.notice(notice),
        ])
        await till.payments.notice(notice)
        expect((await till.row(held.orderNo)).status).toBe('paid')
      }
      await till.sound()
    })

    it('C23 (c), P-early0: money for a number that never appears closes the number and goes back once', async () => {
      const till = await openTill(backend(), { payments: { graceMs: 0 } })
      const ghost = { orderNo: newOrderNo(), userId: 'ann' }
      const notice = direct(till, ghost)
      expect(await till.payments.notice(notice)).toMatchObject({ status: 'retry-later' })
      await till.round(3)
      expect(await till.row(ghost.orderNo)).toMatchObject({
        status: 'closed',
        reason: 'never-appeared',
      })
      expect((await till.payment(notice.paymentId)).status).toBe('refunded')
      expect(till.wx.refunds()).toHaveLength(1)
      expect(till.alerts).toContain('payment-anomaly')
      expect(await till.payments.notice(notice)).toEqual({ status: 'repeated', acknowledge: true })
      const late = {
        ...ghost,
        ...till.ref,
        quantity: 1,
        bucket: 0,
        version: 'v1',
        reservedAt: Date.now(),
      }
      expect(await till.orders.confirm([late])).toMatchObject([{ status: 'closed', fresh: false }])
      await till.sound()
    })

    it('C23 (c): a notice of money that the channel does not know of moves nothing', async () => {
      const till = await openTill(backend(), { payments: { graceMs: 0 } })
      const order = { ...till.ref, orderNo: newOrderNo() }
      const forged: PaymentNotice = {
        channel: 'wx',
        paymentId: newOrderNo(),
        tradeNo: newOrderNo(),
        amountMinor: PRICE,
        currency: 'CNY',
        verified: true,
        userId: 'ann',
        order,
      }
      await till.payments.notice(forged)
      await till.round(3)
      expect(await till.payment(forged.paymentId)).toMatchObject({
        status: 'anomaly',
        capturedMinor: 0,
      })
      expect(till.wx.calls.refund).toBe(0)
      const { order: _, ...nameless } = {
        ...forged,
        paymentId: newOrderNo(),
        tradeNo: newOrderNo(),
      }
      expect(await till.payments.notice(nameless)).toEqual({ status: 'anomaly', acknowledge: true })
      // `none` may be a query that lags behind: it is asked again, and then left to its task.
      await till.round(12)
      expect(till.wx.calls).toMatchObject({ close: 1, refund: 0 })
      expect(await till.payment(nameless.paymentId)).toMatchObject({
        orderNo: '',
        status: 'anomaly',
        capturedMinor: PRICE,
      })
      const { query } = till.wx.calls
      await till.round()
      expect(till.wx.calls.query).toBe(query)
      expect(await till.openTasks('payment-anomaly')).toBeGreaterThan(0)
      await till.sound()
    })

    it('C23 (c): real money that names no order goes back', async () => {
      const till = await openTill(backend())
      const {
        order: _,
        userId: __,
        ...notice
      } = direct(till, { orderNo: newOrderNo(), userId: 'ann' })
      expect(await till.payments.notice(notice)).toEqual({ status: 'anomaly', acknowledge: true })
      expect(till.alerts).toEqual(['payment-anomaly', 'payment-not-taken'])
      await till.round()
      expect((await till.payment(notice.paymentId)).status).toBe('refunded')
      expect(await till.tasks('payment-anomaly')).toBeGreaterThan(0)
      await till.sound()
    })

    it('P-early0: a number still held in Redis after the grace time is closed, its unit and the money go back', async () => {
      const till = await openTill(backend(), { payments: { graceMs: 0 }, units: 1 })
      const held = await till.held('ann')
      const notice = direct(till, held)
      await till.payments.notice(notice)
      await till.round(3)
      // Its version is known, so its price is, and nothing is strange about the money.
      expect(await till.row(held.orderNo)).toMatchObject({
        status: 'closed',
        reason: 'never-appeared',
      })
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 1, pending: 0 })
      expect((await till.payment(notice.paymentId)).status).toBe('refunded')
      await till.sound()
    })
  })
}
