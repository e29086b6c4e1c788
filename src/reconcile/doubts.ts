import type { SkuRef } from '../core/types.js'
import type { FindingList } from './finding-list.js'
import { findingOf } from './findings.js'

/** What a database that lags would show, though nothing is wrong. */
const ONLY_IF_FRESH: ReadonlySet<string> = new Set([
  'order-missing',
  'paid-differs',
  'excess-order',
  'paid-but-returned',
  'quantity-differs',
  'two-live-orders',
  'total-differs',
  'stock-row-differs',
  'top-up-unbooked',
])

/**
 * Redis hears of a row after its commit. So a database that lacks numbers which Redis has known as decided for a moment only
 * is a replica that lags, or has lost its last commits; then that is the finding, until the grace time has passed.
 */
export function doubtTheDatabase(ref: SkuRef, found: FindingList, behind: number): void {
  if (behind === 0) return
  for (const f of found.of(ref)) if (ONLY_IF_FRESH.has(f.kind)) found.remove(f)
  const evidence = `${behind} orders that Redis knows as decided have no row yet: a replica that lags is read, or commits were lost`
  found.add(findingOf({ ...ref, kind: 'database-behind', evidence, repair: 'manual' }))
}

const SUMS: ReadonlySet<string> = new Set(['frozen-differs', 'sold-differs', 'pending-differs'])

/** A unit that Redis counts without a record would be taken a second time; only a rebuild puts that right. */
export function doubtRedis(ref: SkuRef, found: FindingList): void {
  const mine = found.of(ref)
  if (!mine.some((f) => SUMS.has(f.kind))) return
  for (const f of mine)
    if (f.kind === 'no-deduction')
      found.replace({
        ...f,
        evidence: `${f.evidence}; Redis may still count its unit, and is to be rebuilt`,
        repair: 'manual',
      })
}
