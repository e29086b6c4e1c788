import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { ActivityControl, ManualTask, OrderBook, ReconcilableStock } from '../core/ports.js'
import type { Move, Reservation, SkuRef } from '../core/types.js'
import { classify, type NumberRepair } from './classify.js'
import type { Finding, Repaired } from './findings.js'
import { markMissing } from './marks.js'
import { type Pair, SecondLook } from './second-look.js'
import { stopIfAborted } from './stop.js'

type Status = Repaired['status']

export interface RepairParts {
  readonly stock: ReconcilableStock
  readonly orders: OrderBook
  readonly control: Pick<ActivityControl, 'read'> | undefined
  readonly signal: AbortSignal | undefined
  /** Asked before each write. */
  readonly mayWrite: () => Promise<boolean>
  readonly onManual: (finding: Finding) => void
}

const PAGE = 256
/** How long a batch is kept from the relay while it is settled here. */
const LEASE_MS = 5_000

/**
 * Looks at each finding again and repairs what still stands, by the moves that the sale itself makes: the database first
 * where it has to decide, then Redis, each once per order number. So it may be ended at any point, and run twice at once.
 */
export class Repairs {
  readonly #look: SecondLook

  constructor(private readonly parts: RepairParts) {
    this.#look = new SecondLook(parts.stock, parts.orders)
  }

  async run(findings: readonly Finding[]): Promise<readonly Repaired[]> {
    const status = new Map<Finding, Status>()
    for (const [ref, ofSku] of bySku(findings.filter(isNumber)))
      for (let i = 0; i < ofSku.length; i += PAGE)
        await this.#numbers(ref, ofSku.slice(i, i + PAGE), status)
    for (const f of findings) if (!status.has(f)) status.set(f, await this.#other(f))
    return findings.map((f) => ({ id: f.id, status: status.get(f) ?? 'gone' }))
  }

  async #numbers(
    ref: SkuRef,
    findings: readonly NumberFinding[],
    status: Map<Finding, Status>,
  ): Promise<void> {
    const todo: {
      readonly f: NumberFinding
      readonly pair: Pair
      readonly repair: NumberRepair
    }[] = []
    for await (const page of this.#look.pages(ref, findings)) {
      const pairs = new Map(page.pairs.map((p) => [`${p.userId} ${p.orderNo}`, p]))
      for (const f of findings) {
        const pair = pairs.get(`${f.userId} ${f.orderNo}`)
        const repair = pair ? await this.#stillStands(f, pair) : 'manual'
        if (repair === null) status.set(f, 'gone')
        else if (!pair || repair === 'manual') status.set(f, await this.#manual(f))
        else todo.push({ f, pair, repair })
      }
    }
    const of = (repair: NumberRepair) => todo.filter((t) => t.repair === repair).map((t) => t.pair)
    const moves = [
      ...of('deduct').map(toRow),
      ...of('confirm').map(toRow),
      ...of('release').map(toRow),
      ...(await this.#close(of('close'))),
      ...(await this.#closeOrders(of('close-order'))),
    ]
    if (moves.length > 0) await this.#mayWrite()
    const moved = await this.parts.stock.move(moves)
    const refused = new Set(moves.filter((_, i) => moved[i] === 'refused').map(numberOf))
    const released = moves.filter((m) => m.to === 'released' && !refused.has(numberOf(m)))
    if (released.length > 0) {
      await this.#mayWrite()
      await this.parts.orders.released(released.map(numberOf))
    }
    for (const { f } of todo)
      status.set(f, refused.has(f.orderNo) ? await this.#manual(f) : 'repaired')
  }

  /** What is to be done now; null when nothing is. */
  async #stillStands(f: NumberFinding, pair: Pair): Promise<NumberRepair | null> {
    if (f.kind === 'mark-missing') {
      const missing = await markMissing(this.parts.stock, f, pair)
      return missing ? 'confirm' : null
    }
    const verdict = classify(pair.record, pair.row, false)
    if (verdict.status !== 'finding') return null
    // Redis may still count the unit: a person decides, as the finding says.
    if (verdict.kind === f.kind && f.repair === 'manual') return 'manual'
    // A tombstone alone has no quantity, a record of another hand may have any: no call takes such a reservation.
    const subject = verdict.repair === 'close' ? pair.record : (pair.row ?? pair.record)
    return isSound(subject) ? verdict.repair : 'manual'
  }

  /** A CLOSED row, unless one turned up. */
  async #close(pairs: readonly Pair[]): Promise<readonly Move[]> {
    const reservations = pairs.flatMap(({ record }) => (record ? [reservationOf(record)] : []))
    if (reservations.length === 0) return []
    await this.#mayWrite()
    const verdicts = await this.parts.orders.closeUnbooked(reservations, 'lost')
    return movesOf(verdicts, reservations)
  }

  async #closeOrders(pairs: readonly Pair[]): Promise<readonly Move[]> {
    const reservations = pairs.flatMap(({ row }) => (row ? [reservationOf(row)] : []))
    if (reservations.length === 0) return []
    await this.#mayWrite()
    const numbers = reservations.map((r) => r.orderNo)
    const verdicts = await this.parts.orders.closeUnpaid(numbers, 'excess-order')
    return movesOf(verdicts, reservations)
  }

  async #other(f: Finding): Promise<Status> {
    stopIfAborted(this.parts.signal)
    switch (f.repair) {
      case 'top-up':
        return this.#topUp(f)
      case 'stop':
        return this.#stop(f)
      case 'settle':
        return this.#settle(f)
      case 'strike':
        return this.#strike(f)
      default:
        return this.#manual(f)
    }
  }

  async #topUp(f: Finding): Promise<Status> {
    const { activityId, skuId, subject } = f
    if (skuId === null) return this.#manual(f)
    const ref = { activityId, skuId }
    const booked = await this.parts.orders.topUps(ref)
    const operation = booked?.operations.find((t) => t.operationId === subject)
    const applied = (await this.parts.stock.topUps(ref)).some((t) => t.operationId === subject)
    if (!operation || applied) return 'gone'
    await this.#mayWrite()
    await this.parts.stock.topUp(ref, Number(operation.units), operation.operationId)
    return 'repaired'
  }

  /** Somebody may open the sale between our reading of the row and our telling Redis: then Redis is told again. */
  async #stop(f: Finding): Promise<Status> {
    const { control, stock } = this.parts
    const { activityId, subject } = f
    if (!control || subject === null) return this.#manual(f)
    if ((await control.read(activityId)).state === 'open') return 'gone'
    if ((await stock.numbers({ activityId, skuId: subject })).state === 'stopped') return 'gone'
    await this.#mayWrite()
    await stock.control(f.activityId, 'stopped')
    if ((await control.read(f.activityId)).state === 'open')
      await stock.control(f.activityId, 'open')
    return 'repaired'
  }

  /** As the relay does it: CLOSED rows for what has none, Redis told of all, and the batch is owed no longer. */
  async #settle(f: Finding): Promise<Status> {
    const { stock, orders } = this.parts
    const isThere = async () => {
      const overdue = await stock.overdue(f.activityId, { lateMs: 0 })
      return overdue.some((b) => b.batchId === f.subject)
    }
    if (!(await isThere())) return 'gone'
    await this.#mayWrite()
    const owed = await stock.takeOwed(f.activityId, { leaseMs: LEASE_MS, limit: 100 })
    for (const { due, batch } of owed) {
      if (due !== 'close') continue
      const reservations = batch.reservations.map(reservationOf)
      await this.#mayWrite()
      const verdicts = await orders.closeUnbooked(reservations, 'lost')
      await this.#mayWrite()
      await stock.move(movesOf(verdicts, reservations))
      await this.#mayWrite()
      await stock.delivered(batch, 'settled')
    }
    return (await isThere()) ? this.#manual(f) : 'repaired'
  }

  async #strike(f: Finding): Promise<Status> {
    const { activityId, skuId, subject } = f
    if (skuId === null || subject === null) return this.#manual(f)
    const o = { olderThanMs: 0, limit: 1_000 }
    const owed = await this.parts.orders.owedReleases({ activityId, skuId }, o)
    if (!owed.includes(subject)) return 'gone'
    await this.#mayWrite()
    await this.parts.orders.released([subject])
    return 'repaired'
  }

  async #manual(f: Finding): Promise<Status> {
    await this.#mayWrite()
    await this.parts.orders.addManualTask(taskOf(f))
    this.parts.onManual(f)
    return 'manual'
  }

  async #mayWrite(): Promise<void> {
    stopIfAborted(this.parts.signal)
    if (!(await this.parts.mayWrite()))
      throw new FlashSaleError(
        'STOPPED',
        'another reconciler has taken over; what was begun is safe to repeat',
      )
  }
}

type NumberFinding = Finding & {
  readonly orderNo: string
  readonly userId: string
  readonly skuId: string
}

function isNumber(f: Finding): f is NumberFinding {
  return f.orderNo !== null && f.userId !== null && f.skuId !== null
}

function bySku(
  findings: readonly NumberFinding[],
): readonly (readonly [SkuRef, NumberFinding[]])[] {
  const groups = new Map<string, [SkuRef, NumberFinding[]]>()
  for (const f of findings) {
    const { activityId, skuId } = f
    const group = groups.get(`${activityId} ${skuId}`) ?? [{ activityId, skuId }, []]
    group[1].push(f)
    groups.set(`${activityId} ${skuId}`, group)
  }
  return [...groups.values()]
}

const numberOf = (m: Move) => m.reservation.orderNo

/** Redis is told what the row says. */
function toRow({ row, record }: Pair): Move {
  const reservation = reservationOf((row ?? record) as Reservation)
  if (row?.status === 'closed') return { to: 'released', reservation, reason: reasonOf(row.reason) }
  return { to: row?.status === 'paid' ? 'paid' : 'confirmed', reservation }
}

function movesOf(
  verdicts: Awaited<ReturnType<OrderBook['closeUnbooked']>>,
  reservations: readonly Reservation[],
): readonly Move[] {
  const byNumber = new Map(reservations.map((r) => [r.orderNo, r]))
  return verdicts.flatMap((v): Move[] => {
    const reservation = byNumber.get(v.orderNo)
    if (!reservation) return []
    return v.status === 'closed'
      ? [{ to: 'released', reservation, reason: reasonOf(v.reason) }]
      : [{ to: v.status, reservation }]
  })
}

/** Redis keeps 100 characters, and none of those that separate. */
function reasonOf(reason: string | null): string {
  return (reason ?? 'closed').replace(/[|\n]/g, ' ').slice(0, 100)
}

function reservationOf(r: Reservation): Reservation {
  const { orderNo, activityId, skuId, userId, quantity, bucket, version, reservedAt } = r
  return { orderNo, activityId, skuId, userId, quantity, bucket, version, reservedAt }
}

function isSound(r: Reservation | null): boolean {
  try {
    check.reservation(r as Reservation)
    return true
  } catch {
    return false
  }
}

function taskOf(f: Finding): ManualTask {
  const about = f.orderNo ?? f.subject ?? f.userId ?? ''
  const ref = [f.activityId, f.skuId ?? '', about].join(' ').trim().slice(0, 200)
  return { kind: `difference:${f.kind}`, ref, detail: f }
}
