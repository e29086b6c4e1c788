import * as check from '../core/check.js'
import type { Finding } from './findings.js'

const REPAIRS = [
  'close',
  'close-order',
  'deduct',
  'confirm',
  'release',
  'manual',
  'top-up',
  'stop',
  'settle',
  'strike',
] as const

/** Findings as they come from a caller, perhaps out of a file: nothing is done before all of them are checked. */
export function findingsOf(values: readonly Finding[]): readonly Finding[] {
  check.array(values, 'findings')
  return Array.from(values as readonly Finding[], (f, i) => {
    const name = `findings[${i}]`
    check.object(f, name)
    check.text(f.id, `${name}.id`, 200)
    check.text(f.kind, `${name}.kind`, 50)
    check.keyId(f.activityId, `${name}.activityId`)
    check.oneOf(f.repair, `${name}.repair`, REPAIRS)
    if (f.skuId !== null) check.keyId(f.skuId, `${name}.skuId`)
    if (f.orderNo !== null) check.id(f.orderNo, `${name}.orderNo`)
    if (f.userId !== null) check.id(f.userId, `${name}.userId`)
    if (f.subject !== null) check.text(f.subject, `${name}.subject`, 200)
    return f
  })
}
