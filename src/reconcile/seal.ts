import { createHash, type Hash } from 'node:crypto'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { ActivityStore } from '../core/ports.js'
import type { RebuildableStock, Seal, SealStore } from '../core/reconcile.js'
import type { Activity, ReservationRecord, SkuRef } from '../core/types.js'

export interface SealParts {
  /** A StockBucket. */
  readonly stock: Pick<RebuildableStock, 'standing' | 'scan' | 'reservations'>
  readonly seals: SealStore
  readonly activities: Pick<ActivityStore, 'load'>
}

/**
 * - `sealed`: the database has all records; `fresh`: by this very call.
 * - `open`: stop it first. `undecided`: reservations still wait for the database.
 * - `not-warmed`, `rewound`, `corrupt`: Redis is not what should be kept; rebuild first.
 * - `changed`: records changed while they were copied; nothing is sealed, try again.
 */
export type Sealed =
  | { readonly status: 'sealed'; readonly seal: Seal; readonly fresh: boolean }
  | {
      readonly status: 'open' | 'undecided' | 'not-warmed' | 'rewound' | 'corrupt' | 'changed'
    }

const PAGE = 1_000
/** Copy, then compare; what differs is put right and compared again. */
const PASSES = 3

/**
 * Copies the records of a stopped sale to the database before Redis expires, and compares them one by one. May be killed
 * and run again, also while another process is still at it; memory is bounded by a page.
 *
 * @throws FlashSaleError `BAD_INPUT` for an activity that the store does not have, or in strong mode; `CORRUPT` for a record
 *   that nobody can read; what Redis and the store throw
 */
export async function sealSale(
  { stock, seals, activities }: SealParts,
  activityId: string,
  o: { readonly signal?: AbortSignal } = {},
): Promise<Sealed> {
  const id = check.keyId(activityId, 'activityId')
  check.object(o, 'options')
  const there = await seals.find(id)
  if (there) return { status: 'sealed', seal: there, fresh: false }
  const activity = await activities.load(id)
  if (!activity || activity.mode === 'strong')
    return check.fail(
      'BAD_INPUT',
      'activityId',
      'of an activity in the store with its stock in Redis',
      id,
    )
  const before = await stock.standing(activity)
  if (before.status !== 'warm') return { status: before.status }
  if (before.state === 'open') return { status: 'open' }
  if (before.waiting > 0) return { status: 'undecided' }
  for (const { skuId } of activity.skus)
    if (!(await copy({ stock, seals }, { activityId: id, skuId }, o.signal))) break
  for (let pass = 1; pass <= PASSES; pass++) {
    const generation = await seals.generation(id)
    const found = await compare({ stock, seals }, activity, o.signal)
    const other = await seals.find(id)
    if (other) return { status: 'sealed', seal: other, fresh: false }
    const now = await stock.standing(activity)
    if (now.status !== 'warm' || now.epoch !== before.epoch || now.seq !== before.seq) break
    const wanted = Object.values(now.records).reduce((sum, n) => sum + n, 0)
    if (!found.clean || found.records !== wanted) continue
    const { epoch } = now
    const { records, checksum } = found
    const { version } = activity
    const read = { activityId: id, version, epoch, records, checksum, generation }
    const seal = await seals.finish(read)
    if (seal) return { status: 'sealed', seal, fresh: true }
  }
  return { status: 'changed' }
}

type Sides = Pick<SealParts, 'stock' | 'seals'>

/** False when somebody else has sealed meanwhile. */
async function copy({ stock, seals }: Sides, ref: SkuRef, signal?: AbortSignal): Promise<boolean> {
  for (let cursor: string | null = '0'; cursor !== null; ) {
    signal?.throwIfAborted()
    const page: Awaited<ReturnType<SealParts['stock']['scan']>> = await stock.scan(ref, cursor)
    if (page.strange.length > 0)
      throw new FlashSaleError('CORRUPT', `the record of buyer ${page.strange[0]} cannot be read`)
    for (let i = 0; i < page.rows.length; i += PAGE)
      if (!(await seals.put(ref, page.rows.slice(i, i + PAGE)))) return false
    cursor = page.next
  }
  return true
}

/** Every record that was copied is looked up in Redis; with their number being the same, none is left out either. */
async function compare({ stock, seals }: Sides, activity: Activity, signal?: AbortSignal) {
  const hash = createHash('sha256')
  let records = 0
  let clean = true
  for (const { skuId } of activity.skus) {
    const ref = { activityId: activity.activityId, skuId }
    let page: ReservationRecord[] = []
    const look = async () => {
      signal?.throwIfAborted()
      if (page.length === 0) return
      const found = await stock.reservations(ref, page)
      if (found === 'not-warmed') {
        clean = false
        return
      }
      // A released number whose buyer has bought again is a tombstone only, without quantity.
      const inRedis = (i: number) => (found[i]?.quantity ? (found[i] ?? null) : null)
      const gone = page.filter((_, i) => inRedis(i) === null)
      const changed = page.flatMap((kept, i) => {
        const record = inRedis(i)
        return record && sealLine(record) !== sealLine(kept) ? [record] : []
      })
      if (gone.length > 0)
        await seals.drop(
          ref,
          gone.map((r) => r.orderNo),
        )
      if (changed.length > 0) await seals.put(ref, changed)
      clean &&= gone.length === 0 && changed.length === 0
      page = []
    }
    for await (const record of seals.records(ref)) {
      addToSeal(hash, record)
      records++
      page.push(record)
      if (page.length === PAGE) await look()
    }
    await look()
  }
  return { clean, records, checksum: hash.digest('hex') }
}

type SealedFields = Pick<
  ReservationRecord,
  'skuId' | 'orderNo' | 'userId' | 'state' | 'quantity' | 'reservedAt' | 'bucket'
>

/** A record in the checksum of a seal; `|` occurs in no id. */
function sealLine(r: SealedFields): string {
  return [r.skuId, r.orderNo, r.userId, r.state, r.quantity, r.reservedAt, r.bucket].join('|')
}

export function addToSeal(hash: Hash, record: SealedFields): void {
  hash.update(`${sealLine(record)}\n`)
}
