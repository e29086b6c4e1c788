import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { PreparedNumbers } from '../core/order-book.js'
import type { Activity, DbNumbers } from '../core/types.js'
import { skuKeys, tagKeys } from '../redis/keys.js'
import type { ScriptRunner } from '../redis/run-script.js'
import { SCRIPT_SET, warmUp as script } from '../redis/scripts.generated.js'

/**
 * - `warmed`: the keys were made, and the sale is stopped. `already-warm`: they stand, and agree.
 * - `differs`: the activity, or the database's total, is not what Redis has, in `what` (of `skuId`, null for the sale).
 * - `broken`: keys are missing or not of one piece, or the database has orders that Redis does not know: rebuild.
 * - `version-in-use`: another version is open, or has sold something.
 */
export type WarmUpResult =
  | { readonly status: 'warmed' | 'already-warm' | 'broken' | 'version-in-use' }
  | {
      readonly status: 'differs'
      readonly what: 'total' | 'opensAt' | 'endsAt' | 'tokens' | 'maxPerOrder' | 'scripts'
      readonly skuId: string | null
    }

/** What the database has of an SKU. */
export type ExpectedNumbers = DbNumbers & Partial<Pick<PreparedNumbers, 'topUps'>>

/** How long the keys outlive the last payment deadline (the source: two hours past the end). */
const KEEP_MS = 2 * 3_600_000

export function keysExpireAt(activity: Activity): number {
  return activity.endsAt + activity.payWithinMs + KEEP_MS
}

/** What the sale key is made of, as the arguments of the scripts that make it. */
export function saleTerms(activity: Activity, tokenEpoch: number) {
  const high = activity.watermark ?? 5000
  return {
    version: activity.version,
    opensAt: activity.opensAt,
    endsAt: activity.endsAt,
    tokens: activity.tokens,
    tokenEpoch,
    maxPerOrder: activity.maxPerOrder,
    high,
    low: Math.floor(high / 2),
    scripts: SCRIPT_SET,
    expiresAt: keysExpireAt(activity),
    skus: activity.skus.length,
  }
}

export async function warmUp(
  runner: ScriptRunner,
  activity: Activity,
  expected: readonly ExpectedNumbers[],
  tokenEpoch: number,
): Promise<WarmUpResult> {
  const { activityId } = activity
  check.array(expected, 'expected')
  for (const db of expected) check.object(db, "the database's numbers")
  const perSku: string[] = []
  const topUps: string[] = []
  const keys: string[] = []
  for (const [i, { skuId }] of activity.skus.entries()) {
    const db = expected.find((n) => n.skuId === skuId && n.activityId === activityId)
    if (!db) check.fail('BAD_INPUT', 'expected', `the database's numbers of ${skuId} too`, expected)
    perSku.push(
      String(check.int(db.total, `expected total of ${skuId}`, 0, check.MAX_UNITS)),
      String(check.int(db.live, `expected live of ${skuId}`, 0, check.MAX_UNITS)),
    )
    for (const { operationId, units } of db.topUps ?? []) {
      const added = check.int(units, 'expected units', -check.MAX_UNITS, check.MAX_UNITS)
      topUps.push(String(i + 1), check.id(operationId, 'expected operationId'), String(added))
    }
    const sku = skuKeys(activityId, skuId)
    keys.push(sku.stock, sku.done)
  }
  const terms = { ...saleTerms(activity, tokenEpoch), topUps: topUps.length / 3 }
  const more = { keys, args: [...perSku, ...topUps] }
  const reply = await runner.run(script, tagKeys(activityId), terms, more)
  return result(reply, activity)
}

type Difference = Extract<WarmUpResult, { status: 'differs' }>['what']

function result(reply: readonly unknown[], activity: Activity): WarmUpResult {
  switch (reply[0]) {
    case 1:
      return { status: 'warmed' }
    case 2:
      return { status: 'already-warm' }
    case -1:
      return { status: 'broken' }
    case -2:
      return { status: 'version-in-use' }
    case 0: {
      const skuId = activity.skus[Number(reply[2]) - 1]?.skuId ?? null
      return { status: 'differs', what: reply[1] as Difference, skuId }
    }
    default:
      throw new FlashSaleError('CORRUPT', `warm-up answered ${String(reply[0])}`)
  }
}
