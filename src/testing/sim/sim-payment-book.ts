import type { DuePayment, OverdueOrder, PaymentBook, RefundJob } from '../../core/payment.js'
import type { SimMoney } from './sim-money.js'
import type { Write } from './sim-orders.js'
import { isAskable, NEVER, type Payment } from './sim-payment-rows.js'

/** The payment book of one process on the shared database: what decides something is an event. */
export function simPaymentBook(money: SimMoney, write: Write, now: () => number): PaymentBook {
  const { db } = money
  const all = () => [...money.payments.values()]
  const change = (paymentId: string, to: (payment: Payment) => Partial<Payment> | null) => {
    const payment = money.payments.get(paymentId)
    const values = payment && to(payment)
    if (values) money.put({ ...payment, ...values })
  }
  return {
    open: (q) => write('opens a payment of', [q.orderNo], () => money.open(q)),
    opened: (id, cashier) =>
      write('payment is open:', [id], () =>
        change(id, ({ status, orderNo, tradeNo }) => {
          if (tradeNo !== null || (status !== 'created' && status !== 'closed')) return null
          const payBy = db.rows.get(orderNo)?.payBy ?? 0
          const nextAt = status === 'created' ? payBy : 0
          return { status: 'created', cashier, tries: 0, nextAt }
        }),
      ),
    withdrawn: (id, fence) =>
      write('payment is over:', [id], () =>
        change(id, ({ status, tries }) =>
          status === 'created' && tries === (fence ?? tries)
            ? { status: 'closed', askKey: null, nextAt: NEVER }
            : null,
        ),
      ),
    capture: (c, o) =>
      write('places the money of', [c.paymentId, c.tradeNo], () => money.capture(c, o)),
    unfounded: (id) =>
      write('no such money:', [id], () =>
        change(id, ({ status, refundingMinor }) =>
          status === 'anomaly' && refundingMinor === 0 ? { capturedMinor: 0, nextAt: NEVER } : null,
        ),
      ),
    decideRefund: (q) => write('decides the refund of', [q.paymentId], () => money.decideRefund(q)),
    findPayment: async (id) => money.payments.get(id) ?? null,
    findTrade: async (channel, tradeNo) =>
      money.find((p) => p.channel === channel && p.tradeNo === tradeNo) ?? null,
    async takePayments({ limit, leaseMs }) {
      const waits = (p: Payment) => ['created', 'received', 'anomaly'].includes(p.status)
      const due = all().filter((p) => waits(p) && p.nextAt <= now())
      return due.slice(0, limit).map((p): DuePayment => {
        const payment = money.put({ ...p, tries: p.tries + 1, nextAt: now() + leaseMs })
        const order = db.rows.get(p.orderNo) ?? null
        const payable = order?.status === 'confirmed' && order.payBy > now()
        const heldMs = p.receivedAt === null ? 0 : now() - p.receivedAt
        return { payment, tries: payment.tries, order, payable, heldMs }
      })
    },
    async putOff(id, tries, afterMs) {
      const nextAt = afterMs === null ? NEVER : now() + afterMs
      change(id, (p) => (p.tries === tries ? { nextAt } : null))
    },
    async hasten(orderNos) {
      for (const p of all())
        if (isAskable(p) && orderNos.includes(p.orderNo)) money.put({ ...p, nextAt: 0 })
    },
    async takeRefunds({ limit, leaseMs, refundId }) {
      const due = [...money.refunds.values()].filter(
        (r) =>
          r.state === 'refunding' &&
          r.nextAt <= now() &&
          (refundId === undefined || r.refundId === refundId),
      )
      return due.slice(0, limit).map((refund): RefundJob => {
        const { state, nextAt: _, tries, ...job } = refund
        money.putRefund({ ...job, state, tries: tries + 1, nextAt: now() + leaseMs })
        return { ...job, tries: tries + 1 }
      })
    },
    endRefund: (job, outcome) =>
      write(`the refund is ${outcome.status}:`, [job.refundId], () =>
        money.endRefund(job, outcome),
      ),
    async overdue({ limit, after = { payBy: 0, orderNo: '' } }) {
      const late = [...db.rows.values()]
        .filter((row) => row.status === 'confirmed' && row.payBy <= now())
        .filter((row) => byDeadline(after, row) < 0)
        .sort(byDeadline)
      return late.slice(0, limit).map(({ orderNo, payBy }): OverdueOrder => {
        const mine = (p: Payment) =>
          p.orderNo === orderNo && (p.status === 'received' || isAskable(p))
        return { orderNo, payBy, lateMs: now() - payBy, payments: all().filter(mine) }
      })
    },
    async *snapshot() {
      yield* all().sort((a, b) => (a.orderNo < b.orderNo ? -1 : 1))
    },
    find: async (nos) =>
      all().filter((p) => nos.includes(p.orderNo) || nos.includes(p.paidOrderNo ?? '')),
  }
}

type Deadline = Pick<OverdueOrder, 'payBy' | 'orderNo'>
const byDeadline = (a: Deadline, b: Deadline) =>
  a.payBy - b.payBy || (a.orderNo < b.orderNo ? -1 : Number(a.orderNo > b.orderNo))
