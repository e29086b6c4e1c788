import { FlashSaleError } from '../core/errors.js'
import type { ReservationRecord, SkuRef } from '../core/types.js'
import { skuKeys } from '../redis/keys.js'
import type { ScriptRunner } from '../redis/run-script.js'
import { records } from '../redis/scripts.generated.js'
import { parseRecord } from './record.js'

export type FoundRecord = ReservationRecord & { readonly reason: string | null }

export interface Asked {
  readonly userId: string
  /** Empty for whatever number the buyer's mark names. */
  readonly orderNo: string
}

/** Lua hands at most 8,000 values from a list to a call. */
const MAX_ASKED = 1_000

/** The record of each buyer, or of each buyer's number; null where there is none, `strange` where it cannot be read. */
export async function lookUp(
  runner: ScriptRunner,
  ref: SkuRef,
  asked: readonly Asked[],
): Promise<readonly (FoundRecord | 'strange' | null)[] | 'not-warmed'> {
  const found: (FoundRecord | 'strange' | null)[] = []
  for (let i = 0; i < asked.length; i += MAX_ASKED) {
    const some = await lookUpSome(runner, ref, asked.slice(i, i + MAX_ASKED))
    if (some === 'not-warmed') return some
    found.push(...some)
  }
  return found
}

async function lookUpSome(
  runner: ScriptRunner,
  ref: SkuRef,
  asked: readonly Asked[],
): Promise<readonly (FoundRecord | 'strange' | null)[] | 'not-warmed'> {
  const args = asked.flatMap((a) => [a.userId, a.orderNo])
  const reply = await runner.run(
    records,
    skuKeys(ref.activityId, ref.skuId),
    { count: asked.length },
    { args },
  )
  if (reply[0] === -1) return 'not-warmed'
  const version = String(reply[1])
  const texts = String(reply[2]).split(' ')
  const reasons = String(reply[3]).split('|')
  if (texts.length !== asked.length)
    throw new FlashSaleError('CORRUPT', `records answered ${texts.length} of ${asked.length}`)
  let used = 0
  return asked.map(({ userId, orderNo }, i) => {
    const text = texts[i] as string
    if (text === '-') return null
    const record = parseRecord(text)
    if (!record) return 'strange'
    const reason = record.state === 'released' ? reasons[used++] || null : null
    if (orderNo !== '' && record.orderNo !== orderNo) return null
    const { state, quantity, reservedAt } = record
    return {
      activityId: ref.activityId,
      skuId: ref.skuId,
      orderNo: record.orderNo,
      userId,
      quantity,
      bucket: 0,
      version,
      reservedAt,
      state,
      reason,
    }
  })
}

/** As `lookUp`. @throws FlashSaleError `CORRUPT` for a record that cannot be read */
export async function readableRecords(
  runner: ScriptRunner,
  ref: SkuRef,
  asked: readonly Asked[],
): Promise<readonly (FoundRecord | null)[] | 'not-warmed'> {
  const found = await lookUp(runner, ref, asked)
  if (found === 'not-warmed') return found
  return found.map((record, i) => {
    if (record !== 'strange') return record
    const what = `the record of buyer ${asked[i]?.userId} cannot be read`
    throw new FlashSaleError('CORRUPT', what)
  })
}
