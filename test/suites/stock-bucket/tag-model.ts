import { SaleModel } from './model.js'

export const TAG_KEYS = ['sale', 'released', 'owed', 'batch'] as const
export const SKU_KEYS = ['stock', 'done'] as const
export type Key = (typeof TAG_KEYS)[number] | (typeof SKU_KEYS)[number]

/** An order as the database has it. */
export interface Row {
  readonly userId: string
  readonly orderNo: string
  readonly quantity: number
  readonly state: 'confirmed' | 'paid' | 'released'
}

export interface Terms {
  readonly version: string
  readonly units: number
  readonly maxPerOrder: number
}

/** What a rebuild has collected when it puts it in place. */
export interface Collected extends Terms {
  /** As it was when the rebuild began, 0 for none. */
  readonly seenEpoch: number
  readonly above: number
  readonly revision: number
  readonly rows: readonly Row[]
  readonly operations: readonly string[]
}

/** The six keys of a sale of one SKU: whether they are there and of one piece, and who may make them anew. */
export class TagModel {
  keys = new Set<Key>()
  epoch = 0
  version = ''
  sale = new SaleModel(0, 1, 1)

  constructor(private readonly high: number) {}

  get whole(): boolean {
    return this.keys.size === 6
  }

  /** Of one bucket, as `StockBucket.warmUp` answers. `live`: units of live orders in the database. */
  warmUp(terms: Terms, live: number, now: number): string {
    const of = (names: readonly Key[]) => names.filter((key) => this.keys.has(key)).length
    const [tag, sku] = [of(TAG_KEYS), of(SKU_KEYS)]
    if (tag > 0) {
      if (tag < 4) return 'broken'
      if (this.version === terms.version) return this.compare(terms)
      if (this.sale.open || this.sale.seq > 0) return 'version-in-use'
      if (sku === 1) return 'broken'
      if (sku === 2 && this.touched()) return 'version-in-use'
    } else if (sku > 0) return 'broken'
    if (live > 0) return 'broken'
    const revision = tag > 0 ? this.sale.revision : 0
    this.make(terms, Math.max(now, tag > 0 ? this.epoch + 1 : 0), revision)
    return 'warmed'
  }

  swap(c: Collected, now: number): 'rebuilt' | 'overtaken' {
    const current = this.keys.has('sale') ? this.epoch : 0
    if (current > 0 && current !== c.seenEpoch) return 'overtaken'
    if (TAG_KEYS.every((key) => this.keys.has(key)) && this.sale.open) return 'overtaken'
    const told = this.keys.has('sale') ? this.sale.revision : 0
    const epoch = Math.max(now, current + 1, c.seenEpoch + 1, c.above + 1)
    this.make(c, epoch, Math.max(c.revision, told))
    const { sale } = this
    for (const row of c.rows) this.keep(row)
    if (c.rows.length > 0) sale.seq = 1
    const sum = (state: string) =>
      c.rows.filter((r) => r.state === state).reduce((units, r) => units + r.quantity, 0)
    sale.frozen = sum('confirmed')
    sale.sold = sum('paid')
    sale.over = Math.max(0, sale.frozen + sale.sold - sale.S)
    sale.available = Math.max(0, sale.S - sale.frozen - sale.sold)
    for (const id of c.operations) sale.operations.add(id)
    return 'rebuilt'
  }

  clone(): TagModel {
    const copy = Object.assign(new TagModel(this.high), this)
    copy.keys = new Set(this.keys)
    copy.sale = this.sale.clone()
    return copy
  }

  private compare(terms: Terms): string {
    if (!this.whole) return 'broken'
    if (this.sale.maxPerOrder !== terms.maxPerOrder) return 'differs maxPerOrder'
    return this.sale.S === terms.units ? 'already-warm' : 'differs total'
  }

  /** Something was taken, or is in the books. */
  private touched(): boolean {
    const { available, frozen, sold, over, marks } = this.sale
    return available !== available + frozen + sold || over > 0 || marks.size > 0
  }

  private make(terms: Terms, epoch: number, revision: number): void {
    this.keys = new Set([...TAG_KEYS, ...SKU_KEYS])
    this.epoch = epoch
    this.version = terms.version
    this.sale = new SaleModel(terms.units, terms.maxPerOrder, this.high)
    this.sale.open = false
    this.sale.revision = revision
  }

  /** A buyer's first live order has his mark, his further ones lie beside it; without one his last closed order has it. */
  private keep({ userId, orderNo, quantity, state }: Row): void {
    const { marks, beside, released } = this.sale
    const record = { state, orderNo, quantity, token: '' }
    const mark = marks.get(userId)
    if (state === 'released') released.add(orderNo)
    if (!mark || mark.state === 'released') marks.set(userId, record)
    else if (state !== 'released') beside.set(`${userId} ${orderNo}`, record)
  }
}
