import * as check from '../../core/check.js'
import type { OwedRelease } from '../../core/order-book.js'
import { REFUNDED } from '../../core/standing.js'
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

/** As `takeReleases` gave them. */
export function releases(values: readonly OwedRelease[]): readonly OwedRelease[] {
  return list(values, 'releases', (value: OwedRelease) => {
    check.object(value, 'release')
    check.text(value.id, 'release.id', 128)
    check.id(value.lease, 'release.lease')
    check.object(value.reservation, 'release.reservation')
    check.id(value.reservation.orderNo, 'orderNo')
    return value
  })
}

/** The reason of a CLOSED row. `refunded` is not for the taking: such a row keeps its units. */
export function reason(value: string): string {
  const text = check.text(value, 'reason', 200)
  return text === REFUNDED
    ? check.fail('BAD_INPUT', 'reason', `other than '${REFUNDED}'`, text)
    : text
}
