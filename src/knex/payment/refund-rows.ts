import type { RefundJob, RefundState } from '../../core/payment.js'
import { type Column, exact } from '../sql/dialect.js'
import type { Tables } from '../sql/names.js'
import type { Row, Statements } from '../sql/statements.js'
import type { Tx } from '../sql/tx.js'
import type { PaymentRecord } from './rows.js'

const text = (name: string): Column => ({ name, kind: 'text' })
const int = (name: string): Column => ({ name, kind: 'int' })

const COLUMNS: readonly Column[] = [
  text('refund_id'),
  text('payment_id'),
  text('channel'),
  text('channel_payment_id'),
  text('trade_no'),
  int('amount_minor'),
  text('currency'),
  text('reason'),
  text('state'),
  int('tries'),
  int('next_at'),
  int('created_at'),
  int('updated_at'),
]
export const REFUND_SELECT = COLUMNS.map((c) => c.name).join(', ')

export interface RefundRecord extends RefundJob {
  readonly state: RefundState
}

export function refundRecord(row: Row): RefundRecord {
  return {
    refundId: row.refund_id as string,
    paymentId: row.payment_id as string,
    channel: row.channel as string,
    channelPaymentId: row.channel_payment_id as string,
    tradeNo: row.trade_no as string,
    amountMinor: exact(row.amount_minor, 'amount_minor'),
    currency: row.currency as string,
    reason: row.reason as string,
    state: String(row.state).toLowerCase() as RefundState,
    tries: exact(row.tries, 'tries'),
  }
}

export async function refundById(
  on: Statements,
  tables: Tables,
  refundId: string,
): Promise<RefundRecord | null> {
  const [row] = await on.all(`SELECT ${REFUND_SELECT} FROM ${tables.refund} WHERE refund_id = ?`, [
    refundId,
  ])
  return row ? refundRecord(row) : null
}

/** The decision, in the transaction that looked at payment and order. Due at once. */
export async function insertRefund(
  tx: Tx,
  tables: Tables,
  o: {
    readonly payment: PaymentRecord
    readonly refundId: string
    readonly amountMinor: number
    readonly reason: string
    readonly now: number
    readonly state?: RefundState
  },
): Promise<void> {
  const { payment, now } = o
  await tx.insert(tables.refund, COLUMNS, [
    [
      o.refundId,
      payment.paymentId,
      payment.channel,
      payment.channelPaymentId,
      payment.tradeNo,
      o.amountMinor,
      payment.currency,
      o.reason,
      (o.state ?? 'refunding').toUpperCase(),
      0,
      now,
      now,
      now,
    ],
  ])
}
