import { exportSale, type PaymentRow, sealSale, verifyCertificate } from 'flash-sale-kit'
import { KnexSealStore } from 'flash-sale-kit/knex'
import { describe, expect, test } from 'vitest'
import { AUDIT, openTill, PRICE, type Till, useBackend } from '../suites/payment/kit.js'

describe.each(['mariadb', 'postgres'] as const)('payments in a certificate, on %s', (kind) => {
  const backend = useBackend(kind)

  async function paid(till: Till, userId: string): Promise<string> {
    const notice = await till.paid(await till.order(userId))
    expect(await till.payments.notice(notice)).toMatchObject({ status: 'applied' })
    return notice.paymentId
  }

  /** The buyer pays an order that was closed meanwhile. */
  async function closedButPaid(till: Till, userId: string) {
    const order = await till.order(userId)
    const notice = await till.paid(order)
    await till.payments.close({ orderNo: order.orderNo, reason: 'unpaid' })
    return notice
  }

  const refund = (till: Till, paymentId: string, amountMinor: number) =>
    till.payments.refund({
      ...{ paymentId, refundId: `r-${paymentId}`, reason: 'asked for', amountMinor },
    })

  const seals = () => new KnexSealStore({ knex: backend().db.knex })

  async function ended(till: Till): Promise<void> {
    const { activityId } = till.ref
    await till.control.set(activityId, 'stopped', AUDIT)
    await till.stock.control(activityId, 'stopped')
    const parts = { stock: till.stock, seals: seals(), activities: till.activities }
    expect(await sealSale(parts, activityId)).toMatchObject({ status: 'sealed', fresh: true })
  }

  async function verified(till: Till) {
    const { activities, orders, book: payments } = till
    const parts = { activities, orders, seals: seals(), payments }
    const lines: string[] = []
    for await (const line of exportSale(parts, till.ref.activityId)) lines.push(line)
    const of = (name: string) =>
      lines.map((line) => JSON.parse(line)).filter((line) => line.kind === name)
    return { ...(await verifyCertificate(lines)), payments: of('payment') as PaymentRow[] }
  }

  test('paid, refunded in part and in full, late, refused late and open orders: all money is accounted for', async () => {
    const till = await openTill(backend(), { units: 8 })
    await paid(till, 'paid')
    await refund(till, await paid(till, 'part'), 6_000)
    await refund(till, await paid(till, 'full'), PRICE)
    await till.order('open')
    expect(await till.payments.notice(await closedButPaid(till, 'late'))).toMatchObject({
      status: 'applied',
    })
    // His money comes when he has another live order: it goes back.
    const refused = await closedButPaid(till, 'again')
    await till.order('again')
    await till.payments.notice(refused)
    await till.round(2)
    await ended(till)
    const { valid, violations, certificate, payments } = await verified(till)
    expect(violations).toEqual([])
    expect(valid).toBe(true)
    expect(certificate).toMatchObject({
      ...{ orders: 8, payments: 5, violations: 0 },
      skus: [
        {
          ...{ units: 8, sold: 3, confirmed: 2, refunded: 1, available: 2 },
          closed: { refunded: 1, unpaid: 2 },
        },
      ],
    })
    expect(payments.map((p) => p.status).sort()).toEqual([
      ...['paid', 'paid', 'paid', 'refunded', 'refunded'],
    ])
    expect(
      payments.filter((p) => p.paidOrderNo !== null && p.paidOrderNo !== p.orderNo),
    ).toHaveLength(1)
    await till.sound()
  })

  test('what is paid, refunded and closed after the seal breaks no law; late money of a stopped sale goes back', async () => {
    const till = await openTill(backend(), { units: 8 })
    const early = await paid(till, 'early')
    const order = await till.order('slow')
    const slow = await till.paid(order)
    const late = await closedButPaid(till, 'late')
    await till.order('unpaid')
    await ended(till)
    await till.payments.notice(slow)
    await till.payments.notice(late)
    await refund(till, early, PRICE)
    const unpaid = await till.orders.findByBuyer(till.ref, 'unpaid')
    await till.payments.close({ orderNo: unpaid?.orderNo ?? '', reason: 'unpaid' })
    await till.round(2)
    const { violations, certificate } = await verified(till)
    expect(violations).toEqual([])
    expect(certificate.skus).toMatchObject([{ sold: 1, refunded: 1, confirmed: 0, available: 6 }])
  })

  test('money that went into no order, and an order that nobody has paid, are named', async () => {
    const till = await openTill(backend(), { units: 8 })
    const kept = await paid(till, 'kept')
    const lost = await paid(till, 'lost')
    const row = await till.payment(lost)
    await ended(till)
    await till
      .knex('seckill_order')
      .where({ order_no: row.orderNo })
      .update({ status: 'CONFIRMED' })
    await till.knex('seckill_payment').where({ payment_id: kept }).update({ captured_minor: 1 })
    const { violations, valid } = await verified(till)
    expect(valid).toBe(false)
    expect(violations.map((v) => v.law).sort()).toEqual([
      ...['money-without-order', 'record-differs', 'unpaid'],
    ])
  })
})
