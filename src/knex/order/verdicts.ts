import type { Verdict } from '../../core/order-book.js'
import type { Decision, Standing } from './decide.js'

export function verdictOf(row: Standing, fresh: boolean): Verdict {
  const { orderNo, status } = row
  return status === 'closed'
    ? { orderNo, status, reason: row.reason ?? '', fresh }
    : { orderNo, status, fresh }
}

/** What a confirmation tells of its decision; every refusal has become a CLOSED row. */
export function verdictOfDecision(decision: Decision): Verdict {
  switch (decision.kind) {
    case 'standing':
      return verdictOf(decision.standing, false)
    case 'take':
      return { orderNo: decision.order.orderNo, status: 'confirmed', fresh: true }
    case 'close':
      return closed(decision.order.orderNo, decision.reason)
    case 'refuse':
      return closed(decision.order.orderNo, decision.refused.why)
    default:
      return decision satisfies never
  }
}

function closed(orderNo: string, reason: string): Verdict {
  return { orderNo, status: 'closed', reason, fresh: true }
}
