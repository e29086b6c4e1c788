import * as check from '../../core/check.js'
import type { Reservation } from '../../core/types.js'

/** One transaction of this size takes about a second. */
export const MAX_ORDERS = 10_000

function list<T>(values: unknown, name: string, each: (value: never) => T): readonly T[] {
  if (!Array.isArray(values) || values.length > MAX_ORDERS)
    return check.fail('BAD_INPUT', name, `an array of at most ${MAX_ORDERS}`, values)
  return Array.from(values, (value) => each(value as never))
}

/** Checked copies, each number once: the first of a number counts. */
export function reservations(values: readonly Reservation[]): readonly Reservation[] {
  const byNumber = new Map<string, Reservation>()
  for (const r of list(values, 'reservations', check.reservation))
    if (!byNumber.has(r.orderNo)) byNumber.set(r.orderNo, r)
  return [...byNumber.values()]
}

export function orderNos(values: readonly string[]): readonly string[] {
  return [...new Set(list(values, 'orderNos', (value) => check.id(value, 'orderNo')))]
}

/** The reason of a CLOSED row. */
export function reason(value: string): string {
  return check.text(value, 'reason', 200)
}
