import { FlashSaleError } from '../../core/errors.js'
import type { PaymentBook, RefundDecided, RefundJob } from '../../core/payment.js'
import { REFUNDED } from '../../core/standing.js'
import { storable } from '../../core/storable.js'
import { reopenManualTask } from '../manual-tasks.js'
import { orderOf } from '../order/rows.js'
import type { Database } from '../sql/database.js'
import type { Tx } from '../sql/tx.js'
import type { PaymentHooks } from './hooks.js'
import { insertRefund, REFUND_SELECT, refundById, refundRecord } from './refund-rows.js'
import { changePayment, orderByNo, type PaymentRecord, paymentsWhere } from './rows.js'
import { resolveTask } from './tasks.js'

type Question = Parameters<PaymentBook['decideRefund']>[0]
type Outcome = Parameters<PaymentBook['endRefund']>[1]

/** The row of the refund in the transaction that looked at payment and order; the channel hears of it afterwards. */
export function decideRefund(
  database: Database,
  hooks: PaymentHooks,
  q: Question,
): Promise<RefundDecided> {
  const { tables } = database
  return database.write(async (tx): Promise<RefundDecided> => {
    const now = await tx.now()
    const done = await refundById(tx, tables, q.refundId)
    if (done) {
      if (done.paymentId !== q.paymentId || done.amountMinor !== q.amountMinor)
        throw new FlashSaleError(
          'BAD_INPUT',
          `refund ${q.refundId} was another refund; nothing was written`,
        )
      if (done.state !== 'parked') return { status: done.state, refundId: q.refundId, fresh: false }
      // A person asks again for what was given up: one more round, which begins by looking.
      await tx.run(
        `UPDATE ${tables.refund} SET state = 'REFUNDING', tries = 1, next_at = ?, updated_at = ? WHERE refund_id = ? AND state = 'PARKED'`,
        [now, now, q.refundId],
      )
      await resolveTask(tx, tables, 'refund-parked', q.refundId, 'asked for again')
      return { status: 'refunding', refundId: q.refundId, fresh: true }
    }
    const [payment] = await paymentsWhere(tx, tables, 'payment_id = ?', [q.paymentId])
    if (!payment) return { status: 'not-found' }
    const placed = payment.status === 'paid' || payment.status === 'anomaly'
    const leftMinor = placed ? payment.capturedMinor - payment.refundingMinor : 0
    if (q.amountMinor > leftMinor) return { status: 'refused', leftMinor }

    const whole = q.amountMinor === leftMinor
    const refundedMinor = payment.refundedMinor + (q.made ? q.amountMinor : 0)
    const status = whole
      ? refundedMinor === payment.capturedMinor
        ? 'REFUNDED'
        : 'REFUNDING'
      : payment.status.toUpperCase()
    const sums = {
      status,
      refunding_minor: payment.refundingMinor + q.amountMinor,
      refunded_minor: refundedMinor,
      ...(whole ? { reason: q.reason, ask_key: null } : {}),
    }
    await changePayment(tx, tables, payment, sums, now)
    await insertRefund(tx, tables, {
      ...q,
      payment,
      now,
      state: q.made ? 'refunded' : 'refunding',
    })
    if (whole && payment.paidOrderNo !== null)
      await closeRefunded(tx, database, hooks, payment, q.refundId, now)
    return { status: q.made ? 'refunded' : 'refunding', refundId: q.refundId, fresh: true }
  })
}

/** The units stay sold: whether they are fit for sale again only the host can know. */
async function closeRefunded(
  tx: Tx,
  database: Database,
  hooks: PaymentHooks,
  payment: PaymentRecord,
  refundId: string,
  now: number,
): Promise<void> {
  const { tables } = database
  const orderNo = payment.paidOrderNo as string
  const affected = await tx.run(
    `UPDATE ${tables.order} SET status = 'CLOSED', reason = ?, live_key = NULL, updated_at = ? WHERE order_no = ? AND status = 'PAID'`,
    [REFUNDED, now, orderNo],
  )
  if (affected !== 1) tx.conflict(`order ${orderNo} was changed meanwhile`)
  if (!hooks.onRefunded) return
  const order = await orderByNo(tx, tables, orderNo)
  if (order) await tx.hook((trx) => hooks.onRefunded?.(trx, orderOf(order), refundId))
  if (!(await refundById(tx, tables, refundId))) tx.conflict('the transaction was lost in a hook')
}

/** Each is leased by putting its next time ahead; `tries` says whether anybody may have asked the channel before. */
export function takeRefunds(
  database: Database,
  o: { readonly limit: number; readonly leaseMs: number; readonly refundId?: string },
): Promise<readonly RefundJob[]> {
  const { refund } = database.tables
  return database.write(async (tx) => {
    const now = await tx.now()
    const rows = await tx.all(
      `SELECT ${REFUND_SELECT} FROM ${refund} WHERE state = 'REFUNDING' AND next_at <= ?${o.refundId === undefined ? '' : ' AND refund_id = ?'} ORDER BY next_at, refund_id LIMIT ${o.limit}${tx.dialect.skipLocked}`,
      o.refundId === undefined ? [now] : [now, o.refundId],
    )
    await tx.runIn(
      `UPDATE ${refund} SET tries = tries + 1, next_at = ? WHERE state = 'REFUNDING' AND refund_id IN (??)`,
      [now + o.leaseMs],
      rows.map((row) => row.refund_id as string),
    )
    return rows.map((row) => {
      const { state: _, ...job } = refundRecord(row)
      return { ...job, tries: job.tries + 1 }
    })
  })
}

/** Returns whether it counted. */
export function endRefund(database: Database, job: RefundJob, outcome: Outcome): Promise<boolean> {
  const { tables } = database
  return database.write(async (tx) => {
    const now = await tx.now()
    const set = async (what: string, values: readonly unknown[], lease: boolean) => {
      const affected = await tx.run(
        `UPDATE ${tables.refund} SET ${what}, updated_at = ? WHERE refund_id = ? AND state ${lease ? "= 'REFUNDING' AND tries = ?" : "<> 'REFUNDED'"}`,
        [...values, now, job.refundId, ...(lease ? [job.tries] : [])],
      )
      return affected === 1
    }
    switch (outcome.status) {
      case 'refunded': {
        const [payment] = await paymentsWhere(tx, tables, 'payment_id = ?', [job.paymentId])
        if (!payment) return tx.conflict(`payment ${job.paymentId} is not to be seen`)
        if (!(await set("state = 'REFUNDED'", [], false))) return false
        const refundedMinor = payment.refundedMinor + job.amountMinor
        const all = payment.status === 'refunding' && refundedMinor === payment.capturedMinor
        const sums = { refunded_minor: refundedMinor, ...(all ? { status: 'REFUNDED' } : {}) }
        await changePayment(tx, tables, payment, sums, now)
        await resolveTask(tx, tables, 'refund-parked', job.refundId, 'refunded')
        return true
      }
      case 'again': {
        const next = now + outcome.afterMs
        // One that did not count stays at two at least, so that the next begins by looking.
        const tries = outcome.counted ? job.tries : Math.max(1, job.tries - 1)
        return set('tries = ?, next_at = ?', [tries, next], true)
      }
      case 'parked': {
        if (!(await set("state = 'PARKED'", [], true))) return false
        const task = {
          kind: 'refund-parked',
          ref: job.refundId,
          detail: { ...job, why: storable(outcome.reason, 500) },
        }
        await reopenManualTask(tx, tables.manualTask, task, now)
        return true
      }
      default:
        return outcome satisfies never
    }
  })
}
