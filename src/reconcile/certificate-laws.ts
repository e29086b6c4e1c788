import { REFUNDED } from '../core/standing.js'
import type { OrderLine, PaymentLine, RecordLine } from './certificate-lines.js'

/**
 * - `unreadable`: no line of an export. `chain`: not what was exported there. `disordered`: lines of an SKU out of order, or
 *   of no SKU. `certificate`: the statement is not what the lines say, or missing. `seal`: the records are not those sealed.
 * - `oversold`: more units sold than there were. `units-differ`: sold and available are not all. `second-order`: a buyer
 *   with two live orders.
 * - `record-missing`: an order that Redis did not have. `order-missing`: a record without an order. `record-differs`: they
 *   say different things.
 * - `unpaid`: a paid order without its money. `money-without-order`: money kept for no paid order.
 */
export type Law =
  | 'unreadable'
  | 'chain'
  | 'disordered'
  | 'certificate'
  | 'seal'
  | 'oversold'
  | 'units-differ'
  | 'second-order'
  | 'record-missing'
  | 'order-missing'
  | 'record-differs'
  | 'unpaid'
  | 'money-without-order'

export interface Violation {
  /** Of the export, the first is 1. */
  readonly line: number
  readonly law: Law
  readonly what: string
}

/** All lines of one number. */
export interface Numbered {
  readonly line: number
  readonly orderNo: string
  order: OrderLine | null
  record: RecordLine | null
  payments: PaymentLine[]
}

export type Broken = (law: Law, what: string) => void

export function holdsUnits(order: OrderLine): boolean {
  return order.status !== 'closed' || order.reason === REFUNDED
}

/**
 * What an order may have become after its record was sealed: a confirmed one paid, closed or refunded, since none of that
 * touches Redis any more.
 */
const AGREES: Readonly<Record<string, readonly (string | null)[]>> = {
  confirmed: ['confirmed'],
  paid: ['paid', 'confirmed'],
  refunded: ['paid', 'confirmed'],
  closed: ['released', 'confirmed', null],
}

/** A record and its order, in a sale whose records were sealed. */
export function compareRecord({ order, record }: Numbered, broken: Broken): void {
  if (!order) {
    if (record) broken('order-missing', `Redis: ${record.state}; database: no row`)
    return
  }
  const refunded = order.status === 'closed' && order.reason === REFUNDED
  const state = refunded ? 'refunded' : order.status
  if (!AGREES[state]?.includes(record?.state ?? null))
    broken(
      record ? 'record-differs' : 'record-missing',
      `Redis: ${record?.state ?? 'nothing'}; database: ${state}`,
    )
  if (record && (record.userId !== order.userId || record.quantity !== order.quantity))
    broken('record-differs', 'another buyer or quantity')
}

/** Money and orders of all numbers; what is paid under another number is kept until that number comes. */
export class Money {
  private readonly wanted = new Map<string, { readonly line: number; readonly order: OrderLine }>()
  private readonly given = new Map<string, { readonly line: number; readonly pay: PaymentLine }>()

  take({ line, order, payments }: Numbered, broken: Broken): void {
    for (const pay of payments) {
      if (pay.status === 'paid' && pay.paidOrderNo !== null)
        this.give(pay.paidOrderNo, line, pay, broken)
      else if (pay.capturedMinor > pay.refundingMinor)
        broken('money-without-order', `payment ${pay.paymentId} is ${pay.status}`)
    }
    if (order?.status !== 'paid') return
    const given = this.given.get(order.orderNo)
    if (!given) this.wanted.set(order.orderNo, { line, order })
    else {
      this.given.delete(order.orderNo)
      settle(order, given.pay, broken)
    }
  }

  /** What has found no counterpart. */
  end(broken: (line: number, law: Law, what: string) => void): void {
    for (const { line, order } of this.wanted.values())
      broken(line, 'unpaid', `order ${order.orderNo} has no payment`)
    for (const { line, pay } of this.given.values())
      broken(line, 'money-without-order', `payment ${pay.paymentId} paid no PAID order`)
  }

  private give(orderNo: string, line: number, pay: PaymentLine, broken: Broken): void {
    const wanted = this.wanted.get(orderNo)
    if (wanted) {
      this.wanted.delete(orderNo)
      settle(wanted.order, pay, broken)
    } else if (this.given.has(orderNo))
      broken('money-without-order', `a second payment of order ${orderNo}`)
    else this.given.set(orderNo, { line, pay })
  }
}

function settle(order: OrderLine, pay: PaymentLine, broken: Broken): void {
  if (pay.capturedMinor !== order.amountMinor || pay.currency !== order.currency)
    broken('unpaid', `order ${order.orderNo} was paid ${pay.capturedMinor} ${pay.currency}`)
}
