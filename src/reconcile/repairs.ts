import { FlashSaleError } from '../core/errors.js'
import type { ManualTask, OrderBook } from '../core/order-book.js'
import type { ActivityControl } from '../core/ports.js'
import type { ReconcilableStock } from '../core/reconcile.js'
import { movesOf } from '../core/standing.js'
import type { Move, SkuRef } from '../core/types.js'
import { classify, type NumberRepair } from './classify.js'
import type { Finding, Repaired } from './findings.js'
import { markMissing } from './marks.js'
import { isSound, reservationOf, toRow } from './moves.js'
import { SaleRepairs } from './sale-repairs.js'
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

/** One question to each side, and one script of moves. */
const PAGE = 256

interface Standing {
  readonly f: NumberFinding
  readonly pair: Pair
  readonly repair: NumberRepair
}

/**
 * Looks at each finding again and repairs what still stands, by the moves that the sale itself makes: the database first
 * where it has to decide, then Redis, each once per order number. So it may be ended at any point, and run twice at once.
 */
export class Repairs {
  readonly #look: SecondLook
  readonly #sale: SaleRepairs

  constructor(private readonly parts: RepairParts) {
    this.#look = new SecondLook(parts.stock, parts.orders)
    this.#sale = new SaleRepairs(parts, {
      mayWrite: () => this.#mayWrite(),
      manual: (f) => this.#manual(f),
    })
  }

  async run(findings: readonly Finding[]): Promise<readonly Repaired[]> {
    const status = new Map<Finding, Status>()
    for (const [ref, ofSku] of bySku(findings.filter(isNumber)))
      for (let i = 0; i < ofSku.length; i += PAGE)
        await this.#numbers(ref, ofSku.slice(i, i + PAGE), status)
    for (const f of findings) {
      stopIfAborted(this.parts.signal)
      if (!status.has(f)) status.set(f, await this.#sale.repair(f))
    }
    return findings.map((f) => ({ id: f.id, status: status.get(f) ?? 'gone' }))
  }

  /** A page of one SKU. */
  async #numbers(
    ref: SkuRef,
    findings: readonly NumberFinding[],
    status: Map<Finding, Status>,
  ): Promise<void> {
    stopIfAborted(this.parts.signal)
    const standing: Standing[] = []
    const pairs = await this.#pairs(ref, findings)
    for (const f of findings) {
      const pair = pairs.get(key(f))
      const repair = pair ? await this.#stillToDo(f, pair) : 'manual'
      if (repair === null) status.set(f, 'gone')
      else if (!pair || repair === 'manual') status.set(f, await this.#manual(f))
      else standing.push({ f, pair, repair })
    }
    const refused = await this.#move(standing)
    for (const { f } of standing)
      status.set(f, refused.has(f.orderNo) ? await this.#manual(f) : 'repaired')
  }

  async #pairs(ref: SkuRef, findings: readonly NumberFinding[]): Promise<Map<string, Pair>> {
    const pairs = new Map<string, Pair>()
    for await (const page of this.#look.pages(ref, findings))
      for (const pair of page.pairs) pairs.set(key(pair), pair)
    return pairs
  }

  /** Null when nothing is to be done any more. */
  async #stillToDo(f: NumberFinding, pair: Pair): Promise<NumberRepair | null> {
    if (f.kind === 'mark-missing')
      return (await markMissing(this.parts.stock, f, pair)) ? 'confirm' : null
    const verdict = classify(pair.record, pair.row, false)
    if (verdict.status !== 'finding') return null
    // Redis may still count the unit: a person decides, as the finding says.
    if (verdict.kind === f.kind && f.repair === 'manual') return 'manual'
    const subject = verdict.repair === 'close' ? pair.record : (pair.row ?? pair.record)
    return isSound(subject) ? verdict.repair : 'manual'
  }

  /** The database decides, Redis is told, and so is the outbox. Returns the numbers that Redis refused to move. */
  async #move(standing: readonly Standing[]): Promise<ReadonlySet<string>> {
    const of = (...repairs: readonly NumberRepair[]) =>
      standing.filter((s) => repairs.includes(s.repair)).map((s) => s.pair)
    const moves = [
      ...of('deduct', 'confirm', 'release').map(toRow),
      ...(await this.#close(of('close'))),
      ...(await this.#closeOrders(of('close-order'))),
    ]
    if (moves.length === 0) return new Set()
    await this.#mayWrite()
    const moved = await this.parts.stock.move(moves)
    const refused = new Set(moves.filter((_, i) => moved[i] === 'refused').map(numberOf))
    const released = moves.map(releasedNumber).filter((n) => n !== null && !refused.has(n))
    if (released.length > 0) {
      await this.#mayWrite()
      await this.parts.orders.released(released as string[])
    }
    return refused
  }

  /** A CLOSED row, unless one turned up. */
  async #close(pairs: readonly Pair[]): Promise<readonly Move[]> {
    const reservations = pairs.flatMap(({ record }) => (record ? [reservationOf(record)] : []))
    if (reservations.length === 0) return []
    await this.#mayWrite()
    return movesOf(await this.parts.orders.closeUnbooked(reservations, 'lost'), reservations)
  }

  async #closeOrders(pairs: readonly Pair[]): Promise<readonly Move[]> {
    const reservations = pairs.flatMap(({ row }) => (row ? [reservationOf(row)] : []))
    if (reservations.length === 0) return []
    await this.#mayWrite()
    const numbers = reservations.map((r) => r.orderNo)
    return movesOf(await this.parts.orders.closeUnpaid(numbers, 'excess-order'), reservations)
  }

  async #manual(f: Finding): Promise<Status> {
    await this.#mayWrite()
    await this.parts.orders.addManualTask(taskOf(f))
    this.parts.onManual(f)
    return 'manual'
  }

  async #mayWrite(): Promise<void> {
    stopIfAborted(this.parts.signal)
    if (await this.parts.mayWrite()) return
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

const key = (s: { readonly userId: string; readonly orderNo: string }) => `${s.userId} ${s.orderNo}`
const numberOf = (m: Move) => m.reservation.orderNo
const releasedNumber = (m: Move) => (m.to === 'released' ? numberOf(m) : null)

function taskOf(f: Finding): ManualTask {
  const about = f.orderNo ?? f.subject ?? f.userId ?? ''
  const ref = [f.activityId, f.skuId ?? '', about].join(' ').trim().slice(0, 200)
  return { kind: `difference:${f.kind}`, ref, detail: f }
}
