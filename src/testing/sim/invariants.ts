import type { OrderRow } from '../../core/order-book.js'
import type { SimLedger, SimRecord } from './ledger.js'
import { type SimDatabase, standingOf } from './sim-database.js'
import type { Bought } from './world.js'

/** A rule that was broken, and how. */
export interface Breach {
  /** As docs/simulate.md names it. */
  readonly rule: string
  readonly what: string
}

/** How often each number took a unit, and gave one back, since Redis was made: goes back in time with it. */
export class History {
  private constructor(
    private readonly taken: Map<string, number>,
    private readonly released: Map<string, number>,
    private last: SimLedger | null,
  ) {}

  /** Numbers that took a unit in the last step. */
  took: string[] = []

  static begin(): History {
    return new History(new Map(), new Map(), null)
  }

  copy(): History {
    return new History(new Map(this.taken), new Map(this.released), this.last)
  }

  /** Compares with the step before. A rebuild makes all anew: `anew`. */
  see(ledger: SimLedger | null, anew: boolean): Breach | null {
    const before = anew ? null : this.last
    if (anew) {
      this.taken.clear()
      this.released.clear()
    }
    this.last = ledger
    this.took = []
    for (const record of ledger?.records.values() ?? []) {
      const was = holds(before?.records.get(record.orderNo))
      const is = holds(record)
      if (is && !was) {
        if (record.state === 'h') this.took.push(record.orderNo)
        const times = add(this.taken, record.orderNo)
        if (times > 1) return { rule: 'I8', what: `${record.orderNo} took a unit ${times} times` }
      }
      if (was && !is) {
        const times = add(this.released, record.orderNo)
        if (times > 1)
          return { rule: 'I4', what: `${record.orderNo} gave its unit back ${times} times` }
      }
    }
    return null
  }
}

const holds = (record: SimRecord | undefined) => record !== undefined && record.state !== 'r'

function add(counts: Map<string, number>, orderNo: string): number {
  const times = (counts.get(orderNo) ?? 0) + 1
  counts.set(orderNo, times)
  return times
}

/** What buyers were told, by order number. */
export interface Told {
  readonly queued: ReadonlyMap<string, Bought>
  readonly tryAgain: ReadonlySet<string>
  /** A stop was acknowledged, and nobody has opened since. */
  readonly stopped: boolean
}

/** What must hold after every step. */
export function atEveryStep(db: SimDatabase, ledger: SimLedger | null, told: Told): Breach | null {
  return ofDatabase(db, told) ?? (ledger ? (ofNumbers(db, ledger) ?? ofRecords(db, ledger)) : null)
}

function ofDatabase(db: SimDatabase, told: Told): Breach | null {
  const units = db.liveUnits()
  if (units > db.units || db.available !== db.units - units)
    return { rule: 'I1', what: `${units} of ${db.units} units live, ${db.available} in stock` }
  const buyers = new Set<string>()
  for (const { userId, orderNo } of db.live()) {
    if (buyers.has(userId)) return { rule: 'I5', what: `buyer ${userId} has a second live order` }
    buyers.add(userId)
    if (told.tryAgain.has(orderNo))
      return { rule: 'I9', what: `${orderNo} is live, and its buyer was told to try again` }
  }
  return null
}

function ofNumbers(db: SimDatabase, n: SimLedger): Breach | null {
  const { total, available, frozen, sold, pending, over } = n
  const all = [total, available, frozen, sold, pending, over]
  let sellable = db.activity.skus[0]?.units ?? 0
  for (const [id, units] of n.topUps) {
    if (db.topUps.get(id) !== units) return { rule: 'I2', what: `top-up ${id} is in Redis only` }
    sellable += units
  }
  if (
    all.some((number) => !(number >= 0)) ||
    total !== available + frozen + sold ||
    total - over !== sellable
  ) {
    const what = `total ${total}, available ${available}, frozen ${frozen}, sold ${sold}, pending ${pending}, over ${over}, S ${sellable}`
    return { rule: 'I2', what }
  }
  const sums = { h: 0, c: 0, p: 0, r: 0 }
  let waiting = 0
  for (const { state, units } of n.records.values()) {
    sums[state] += units
    if (state === 'h') waiting++
  }
  if (frozen === sums.h + sums.c && sold === sums.p && pending === sums.h && n.waiting === waiting)
    return null
  const says = `frozen ${frozen}, sold ${sold}, pending ${pending}, waiting ${n.waiting}`
  const what = `${says}; records: held ${sums.h}, confirmed ${sums.c}, paid ${sums.p}, ${waiting} held`
  return { rule: 'I2+', what }
}

function ofRecords(db: SimDatabase, ledger: SimLedger): Breach | null {
  for (const { state, orderNo } of ledger.records.values()) {
    const row = db.rows.get(orderNo)
    if ((state === 'c' || state === 'p') && !db.everConfirmed.has(orderNo))
      return { rule: 'I7', what: `${orderNo} is confirmed in Redis, and never was in the database` }
    if (state === 'r' && !isClosed(row)) return early(orderNo)
  }
  for (const orderNo of ledger.tombstones)
    if (!isClosed(db.rows.get(orderNo))) return early(orderNo)
  return null
}

/** The units of a refunded order do not go back by themselves. */
const isClosed = (row: OrderRow | undefined) => row !== undefined && standingOf(row) === 'closed'

const early = (orderNo: string): Breach => ({
  rule: 'law 3',
  what: `${orderNo} was released without a CLOSED row`,
})

/** What must hold once nothing is under way any more. */
export function atRest(db: SimDatabase, ledger: SimLedger | null, told: Told): Breach | null {
  if (!ledger) return { rule: 'I3', what: 'Redis was not rebuilt' }
  const units = db.liveUnits()
  for (const id of db.topUps.keys())
    if (!ledger.topUps.has(id)) return { rule: 'I2', what: `top-up ${id} is in the database only` }
  if (ledger.available !== db.units - units || ledger.over !== 0) {
    const what = `available ${ledger.available}, over ${ledger.over}, with ${units} of ${db.units} units live`
    return { rule: 'I3', what }
  }
  for (const { orderNo, state } of ledger.records.values()) {
    const row = db.rows.get(orderNo)
    const says = { h: 'held', c: 'confirmed', p: 'paid', r: 'closed' }[state]
    const stands = row ? standingOf(row) : 'unknown'
    if (stands !== says)
      return { rule: 'I3b', what: `${orderNo} is ${says} in Redis, ${stands} in the database` }
  }
  for (const { orderNo, userId } of db.live()) {
    const record = ledger.records.get(orderNo)
    if (ledger.tombstones.has(orderNo))
      return { rule: 'I3c', what: `${orderNo} is live, and its unit went back` }
    if (!record) return { rule: 'I3b', what: `${orderNo} is live, and Redis does not know it` }
    // He may lie beside an earlier order of his that was paid and refunded: that bars him as well.
    if (record.beside && !bars(ledger, userId))
      return { rule: 'I11', what: `live buyer ${userId} has no mark` }
  }
  if (ledger.pending > 0 || ledger.busy)
    return { rule: 'I10', what: `pending ${ledger.pending}${ledger.busy ? ', stuck busy' : ''}` }
  if (told.stopped && ledger.open)
    return { rule: 'I15', what: 'the sale is open, and its stop was acknowledged' }
  for (const orderNo of told.queued.keys())
    if (!db.rows.has(orderNo) && !ledger.records.has(orderNo) && !ledger.tombstones.has(orderNo))
      return { rule: 'I12', what: `${orderNo} was answered "queued", and nobody knows it` }
  return null
}

const bars = ({ records }: SimLedger, userId: string) =>
  [...records.values()].some((r) => r.userId === userId && !r.beside && r.state !== 'r')
