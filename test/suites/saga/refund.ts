import { CompensationSaga, orderSaga, type Reservation, refundPaid } from 'flash-sale-kit'
import { KnexSagaStore } from 'flash-sale-kit/knex'
import { describe, expect, test } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { openTill, PRICE, type Till, useBackend } from '../payment/kit.js'
import { newId } from './kit.js'

/** A saga that takes this order back, begun. */
async function takeBack(
  till: Till,
  { orderNo }: Reservation,
  payments: Pick<Till['payments'], 'refund'> = till.payments,
) {
  const { knex, orders, stock, book } = till
  const saga = new CompensationSaga({
    store: new KnexSagaStore({ knex }),
    definition: orderSaga({ orders, stock, refund: refundPaid({ payments, book }) }),
    everyMs: 10,
  })
  const id = newId() + orderNo
  await knex.transaction((trx) => saga.begin(trx, { id, data: { orderNo, reason: 'risk' } }))
  const rest = async () => {
    for (let i = 0; i < 5 && (await saga.find(id))?.status === 'running'; i++) {
      await knex('seckill_saga').where({ saga_id: id }).update({ next_time: 0 })
      await saga.run()
    }
    return saga.find(id)
  }
  return { id, saga, rest }
}

async function paidOrder(till: Till) {
  const order = await till.order('ann')
  const notice = await till.paid(order)
  expect(await till.payments.notice(notice)).toMatchObject({ status: 'applied' })
  return { order, paymentId: notice.paymentId }
}

export function sagaRefundSuite(kind: DatabaseKind): void {
  describe(`orderSaga and payments on ${kind}`, () => {
    const backend = useBackend(kind)

    test('P3: a PAID order: all of the money goes back once, the order is closed by it', async () => {
      const till = await openTill(backend())
      const { order, paymentId } = await paidOrder(till)
      const { id, rest } = await takeBack(till, order)
      expect(await rest()).toMatchObject({ status: 'done' })
      expect(await till.payment(paymentId)).toMatchObject({
        status: 'refunded',
        refundedMinor: PRICE,
      })
      const refunds = await till.knex('seckill_refund').where({ payment_id: paymentId })
      expect(refunds.map((row) => row.refund_id)).toEqual([`${id}:refund`])
      expect(await till.row(order.orderNo)).toMatchObject({ status: 'closed', reason: 'refunded' })
      await till.sound()
    })

    test('P3: an order that nobody paid: closed, nothing refunded', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const { rest } = await takeBack(till, order)
      expect(await rest()).toMatchObject({ status: 'done' })
      expect(await till.row(order.orderNo)).toMatchObject({ status: 'closed', reason: 'risk' })
      await till.sound()
    })

    test('P3: paid while the saga closes it: money back, whoever was first', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const notice = await till.paid(order)
      const { saga, rest } = await takeBack(till, order)
      await Promise.all([saga.run(), till.payments.notice(notice)])
      expect(await rest()).toMatchObject({ status: 'done' })
      await till.round(3)
      expect(await till.row(order.orderNo)).toMatchObject({ status: 'closed' })
      expect(await till.payment(notice.paymentId)).toMatchObject({ refundedMinor: PRICE })
      await till.sound()
    })

    test('C25: refunded by saga, by another rule and in part at once: never more than was captured', async () => {
      const till = await openTill(backend())
      const { order, paymentId } = await paidOrder(till)
      const first = await takeBack(till, order)
      const second = await takeBack(till, order)
      const rule = (refundId: string, amountMinor: number) =>
        till.payments.refund({
          paymentId,
          refundId: newId() + refundId,
          amountMinor,
          reason: 'rule',
        })
      await Promise.all([
        first.saga.run(),
        second.saga.run(),
        rule('-part', 6_000),
        rule('-whole', PRICE),
        rule('-whole', PRICE),
      ])
      for (const { rest } of [first, second]) expect(await rest()).toMatchObject({ status: 'done' })
      expect(await till.payment(paymentId)).toMatchObject({ refundingMinor: PRICE })
      expect(await till.row(order.orderNo)).toMatchObject({ status: 'closed', reason: 'refunded' })
      await till.round(3)
      await till.sound()
    })

    test('C25: another refund is decided in between: the saga gives back what that has left', async () => {
      const till = await openTill(backend())
      const { order, paymentId } = await paidOrder(till)
      const part = { paymentId, refundId: newId(), amountMinor: 6_000, reason: 'rule' }
      const { id, rest } = await takeBack(till, order, {
        refund: async (q) => {
          await till.payments.refund(part)
          return till.payments.refund(q)
        },
      })
      expect(await rest()).toMatchObject({ status: 'done' })
      const [row] = await till.knex('seckill_refund').where({ refund_id: `${id}:refund` })
      expect(Number(row.amount_minor)).toBe(PRICE - 6_000)
      expect(await till.row(order.orderNo)).toMatchObject({ status: 'closed', reason: 'refunded' })
      await till.sound()
    })

    test('C25: the refund is decided and the answer lost: looked at again, not refunded twice', async () => {
      const till = await openTill(backend())
      const { order, paymentId } = await paidOrder(till)
      let lost = 0
      const { rest } = await takeBack(till, order, {
        refund: async (q) => {
          await till.payments.refund(q)
          lost++
          throw new Error('the answer is lost')
        },
      })
      expect(await rest()).toMatchObject({ status: 'done' })
      expect(lost).toBe(1)
      expect(await till.payment(paymentId)).toMatchObject({ refundingMinor: PRICE })
      await till.sound()
    })
  })
}
