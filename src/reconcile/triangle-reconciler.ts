import * as check from '../core/check.js'
import type { ActivityStore, Ledger, OrderBook, OrderRow } from '../core/ports.js'
import type { Move, ReservationRecord, SkuRef } from '../core/types.js'
import { classify, type FindingKind, type Repair } from './classify.js'
import {
  type Finding,
  numbersDiffer,
  type Repaired,
  type Report,
  type Triangle,
  unreadable,
} from './findings.js'

export interface TriangleReconcilerOptions {
  /** A StockBucket. */
  readonly stock: Ledger
  readonly orders: OrderBook
  readonly activities: ActivityStore
  /** How long a difference may be work on its way, in ms. @defaultValue 600,000, the time after which a batch is closed */
  readonly graceMs?: number
}

interface Suspect {
  readonly orderNo: string
  readonly userId: string
}

/**
 * Compares physical stock, Redis and orders, number by number, and repairs by the normal idempotent moves, never by setting
 * a counter. Orders on their way are told apart from losses, so it may run while the sale does.
 */
export class TriangleReconciler {
  private readonly graceMs: number

  constructor(private readonly o: TriangleReconcilerOptions) {
    check.object(o, 'options')
    for (const name of ['stock', 'orders', 'activities'] as const)
      if (typeof o[name] !== 'object') check.fail('BAD_OPTION', `option ${name}`, 'given', o[name])
    this.graceMs = check.option(o.graceMs, 'graceMs', 600_000, 0, 86_400_000)
  }

  /**
   * Reads only.
   *
   * @throws FlashSaleError `BAD_INPUT` for an activity that the store does not have; `NOT_WARMED`
   */
  async inspect(activityId: string, signal?: AbortSignal): Promise<Report> {
    const activity = await this.o.activities.load(check.keyId(activityId, 'activityId'))
    if (!activity)
      return check.fail('BAD_INPUT', 'activityId', 'of an activity in the store', activityId)
    const triangles: Triangle[] = []
    const findings: Finding[] = []
    for (const { skuId } of activity.skus) {
      signal?.throwIfAborted()
      const found = await this.inspectSku({ activityId, skuId }, signal)
      triangles.push(found.triangle)
      findings.push(...found.findings)
    }
    const difference = triangles.reduce((sum, t) => sum + t.difference, 0)
    const physical = triangles.reduce((sum, t) => sum + t.physical, 0)
    const rate = physical === 0 ? 0 : difference / physical
    const alert = findings.length > 0
    return { activityId, at: Date.now(), triangles, findings, difference, rate, alert }
  }

  /** Looks at each finding again and repairs what still stands. A second run finds them `gone`. */
  async repair(findings: readonly Finding[]): Promise<readonly Repaired[]> {
    if (!Array.isArray(findings)) check.fail('BAD_INPUT', 'findings', 'an array', findings)
    const repaired: Repaired[] = []
    for (const f of findings as readonly Finding[])
      repaired.push({ id: f.id, status: await this.repairOne(f) })
    return repaired
  }

  private async inspectSku(ref: SkuRef, signal?: AbortSignal) {
    const records = await this.allRecords(ref, signal)
    const suspects = new Map<string, Suspect>()
    const units = { confirmed: 0, paid: 0 }
    let closedOrders = 0
    for await (const row of this.o.orders.snapshot(ref)) {
      signal?.throwIfAborted()
      if (row.status === 'closed') closedOrders++
      else units[row.status] += row.quantity
      const record = records.byNumber.get(row.orderNo) ?? null
      if (classify(record, row, false).status !== 'agrees') suspects.set(row.orderNo, row)
      records.byNumber.delete(row.orderNo)
    }
    for (const record of records.byNumber.values())
      if (classify(record, null, false).status !== 'agrees') suspects.set(record.orderNo, record)

    // The two readings are of different moments: what seems to differ is looked at once more, now in both.
    const findings: Finding[] = []
    let onTheWay = 0
    for (const pair of await this.lookAgain(ref, [...suspects.values()])) {
      const verdict = classify(pair.record, pair.row, pair.ageMs <= this.graceMs)
      if (verdict.status === 'finding')
        findings.push(this.finding(ref, verdict.kind, verdict.repair, pair))
      else if (verdict.status === 'on-its-way' && !pair.row && pair.record?.state === 'held')
        onTheWay += pair.record.quantity
    }
    for (const userId of records.strange) findings.push(unreadable(ref, userId))
    const redis = await this.o.stock.numbers(ref)
    const database = await this.o.orders.numbers(ref)
    if (!database) return check.fail('BAD_INPUT', 'skuId', 'of an SKU with a stock row', ref.skuId)
    if (redis.total - redis.over !== database.total)
      findings.push(
        numbersDiffer(
          ref,
          redis.total - redis.over - database.total,
          'S in Redis and in the database',
        ),
      )
    else if (
      suspects.size === 0 &&
      redis.available - redis.over !== database.available &&
      redis.pending === 0
    )
      findings.push(
        numbersDiffer(ref, redis.available - redis.over - database.available, 'units available'),
      )
    const difference = findings.reduce((sum, f) => sum + f.units, 0)
    const triangle: Triangle = {
      ...ref,
      physical: database.total,
      redis,
      database,
      ...units,
      closedOrders,
      onTheWay,
      difference,
    }
    return { triangle, findings }
  }

  private async allRecords(ref: SkuRef, signal?: AbortSignal) {
    const byNumber = new Map<string, ReservationRecord>()
    const strange = new Set<string>()
    let cursor: string | null = '0'
    while (cursor !== null) {
      signal?.throwIfAborted()
      const page: Awaited<ReturnType<Ledger['scan']>> = await this.o.stock.scan(ref, cursor)
      for (const row of page.rows) byNumber.set(row.orderNo, row)
      for (const userId of page.strange) strange.add(userId)
      cursor = page.next
    }
    return { byNumber, strange }
  }

  /** The row first, then Redis: a number decided in between shows in Redis, never as a row that Redis forgot. */
  private async lookAgain(ref: SkuRef, suspects: readonly Suspect[]): Promise<readonly Pair[]> {
    const pairs: Pair[] = []
    for (let i = 0; i < suspects.length; i += 256) {
      const some = suspects.slice(i, i + 256)
      const rows = new Map(
        (await this.o.orders.find(some.map((s) => s.orderNo))).map((r) => [r.orderNo, r]),
      )
      const records = await this.o.stock.reservations(ref, some)
      some.forEach(({ orderNo }, j) => {
        const record = records === 'not-warmed' ? null : (records[j] ?? null)
        const row = rows.get(orderNo) ?? null
        const at = row?.reservedAt ?? record?.reservedAt ?? 0
        pairs.push({ orderNo, record, row, ageMs: Date.now() - at })
      })
    }
    return pairs
  }

  private finding(ref: SkuRef, kind: FindingKind, repair: Repair, pair: Pair): Finding {
    const { orderNo, record, row, ageMs } = pair
    const evidence = `Redis: ${record?.state ?? 'nothing'}; database: ${row ? row.status + (row.reason ? ` (${row.reason})` : '') : 'no row'}`
    const units = row?.quantity ?? record?.quantity ?? 0
    return {
      ...ref,
      id: `${kind}:${ref.skuId}:${orderNo}`,
      kind,
      orderNo,
      units,
      ageMs,
      evidence,
      repair,
    }
  }

  private async repairOne(f: Finding): Promise<Repaired['status']> {
    if (f.orderNo === null) return 'manual'
    const ref = check.skuRef(f)
    const [row = null] = await this.o.orders.find([f.orderNo])
    const userId = row?.userId ?? (await this.ownerOf(ref, f.orderNo))
    if (userId === null) return 'gone'
    const [pair] = await this.lookAgain(ref, [{ orderNo: f.orderNo, userId }])
    if (!pair) return 'gone'
    const verdict = classify(pair.record, pair.row, false)
    if (verdict.status !== 'finding') return 'gone'
    const subject = pair.row ?? pair.record
    if (verdict.repair === 'manual' || !subject) return 'manual'
    const moves = await this.decide(verdict.repair, subject, pair.row)
    const moved = await this.o.stock.move(moves)
    if (moved.includes('refused')) return 'manual'
    const released = moves.filter((m) => m.to === 'released').map((m) => m.reservation.orderNo)
    if (released.length > 0) await this.o.orders.released(released)
    return 'repaired'
  }

  /** The database first where it has to decide; what Redis must then be told. */
  private async decide(
    repair: Exclude<Repair, 'manual'>,
    subject: OrderRow | ReservationRecord,
    row: OrderRow | null,
  ): Promise<readonly Move[]> {
    const { orderNo } = subject
    const reservation = reservationOf(subject)
    switch (repair) {
      case 'deduct':
      case 'confirm':
        return [{ to: row?.status === 'paid' ? 'paid' : 'confirmed', reservation }]
      case 'release':
        return [{ to: 'released', reservation, reason: row?.reason ?? 'closed' }]
      case 'close-order':
      case 'close': {
        const [verdict] =
          repair === 'close'
            ? await this.o.orders.closeUnbooked([reservation], 'lost')
            : await this.o.orders.closeUnpaid([orderNo], 'excess-order')
        if (!verdict) return []
        if (verdict.status === 'closed')
          return [{ to: 'released', reservation, reason: verdict.reason }]
        return [{ to: verdict.status, reservation }]
      }
      default:
        return repair satisfies never
    }
  }

  /** A number without a row is known by its record only, which lies under its buyer. */
  private async ownerOf(ref: SkuRef, orderNo: string): Promise<string | null> {
    const { byNumber } = await this.allRecords(ref)
    return byNumber.get(orderNo)?.userId ?? null
  }
}

interface Pair {
  readonly orderNo: string
  readonly record: ReservationRecord | null
  readonly row: OrderRow | null
  readonly ageMs: number
}

function reservationOf(r: OrderRow | ReservationRecord) {
  const { orderNo, activityId, skuId, userId, quantity, bucket, version, reservedAt } = r
  return { orderNo, activityId, skuId, userId, quantity, bucket, version, reservedAt }
}
