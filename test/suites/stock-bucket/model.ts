import type { Move, Moved, SaleState } from '../../../src/core/types.js'

/** The rules of a sale as a reader of the design would write them down: no Redis, no batches, no Lua. */

type State = 'held' | 'confirmed' | 'paid' | 'released'
interface Rec {
  state: State
  readonly orderNo: string
  readonly quantity: number
  readonly token: string
}
export interface Ask {
  readonly userId: string
  readonly orderNo: string
  readonly quantity: number
  /** Empty for none. */
  readonly token: string
  readonly issue?: number
  readonly stored?: boolean
}

/** Which tokens are good. */
export interface TokenRules {
  readonly required: boolean
  epoch: number
  /** Stored ones. */
  known(tokenId: string): boolean
}

export class SaleModel {
  S: number
  available: number
  frozen = 0
  sold = 0
  pending = 0
  over = 0
  waiting = 0
  busy = false
  open = true
  tokens: TokenRules = { required: false, epoch: 1, known: () => true }
  /** Of the last act that Redis was told of, where it has one. */
  revision = 0
  /** Batches that took units. */
  seq = 0
  /** By buyer; and by buyer and number where he has two. */
  readonly marks = new Map<string, Rec>()
  readonly beside = new Map<string, Rec>()
  readonly released = new Set<string>()
  readonly operations = new Set<string>()

  constructor(
    units: number,
    readonly maxPerOrder: number,
    readonly high: number,
  ) {
    this.S = units
    this.available = units
  }

  /** What is known of a number: under its buyer's mark, or beside it. */
  record(userId: string, orderNo: string): Readonly<Rec> | undefined {
    const mark = this.marks.get(userId)
    return mark?.orderNo === orderNo ? mark : this.beside.get(`${userId} ${orderNo}`)
  }

  /** One batch; `again` when the message of this very batch is there: its answer was lost, and the client sends it once more. */
  deduct(batch: readonly Ask[], again = false): string[] {
    const before = this.waiting
    const told = batch.map((ask) =>
      again && this.holds(ask) ? `reserved ${ask.orderNo} ${ask.quantity}` : this.deductOne(ask),
    )
    if (this.waiting > before) this.seq++
    return told
  }

  private holds({ userId, orderNo, quantity, token }: Ask): boolean {
    const mark = this.marks.get(userId)
    const same = mark?.orderNo === orderNo && mark.quantity === quantity && mark.token === token
    return same && mark.state === 'held'
  }

  private deductOne(ask: Ask): string {
    const mark = this.marks.get(ask.userId)
    const live = mark && mark.state !== 'released' ? mark : undefined
    if (live && (live.orderNo === ask.orderNo || (ask.token && live.token === ask.token)))
      return `replay ${live.orderNo} ${live.quantity}`
    if (mark && !live) {
      const adopted = this.beside.get(`${ask.userId} ${ask.orderNo}`)
      if (adopted && adopted.state !== 'released')
        return `replay ${adopted.orderNo} ${adopted.quantity}`
      if (this.released.has(ask.orderNo)) return 'try-again'
    }
    if (!this.open) return 'stopped'
    if (ask.quantity > this.maxPerOrder) return 'over-limit'
    if (!ask.token && this.tokens.required) return 'token-missing'
    if (ask.token && !this.good(ask)) return 'token-revoked'
    if (live) return `already-bought ${live.orderNo}`
    if (this.busy) return 'busy'
    if (this.available < ask.quantity)
      return this.available === 0 ? 'sold-out' : `not-enough ${this.available}`
    const { orderNo, quantity, token } = ask
    this.marks.set(ask.userId, { state: 'held', orderNo, quantity, token })
    this.available -= quantity
    this.frozen += quantity
    this.pending += quantity
    this.waiting += 1
    if (this.waiting >= this.high) this.busy = true
    return `reserved ${orderNo} ${quantity}`
  }

  private good({ token, issue = 1, stored = false }: Ask): boolean {
    return issue >= this.tokens.epoch && (!stored || this.tokens.known(token))
  }

  /** All moves of one call; admission resumes by what has become of all of them. */
  move(moves: readonly Move[]): Moved[] {
    const moved = moves.map((m) => this.moveOne(m))
    const wrote = moved.some((m) => m === 'done' || m === 'adopted')
    if (wrote && this.waiting <= Math.floor(this.high / 2)) this.busy = false
    return moved
  }

  private moveOne({ to, reservation: { userId, orderNo, quantity } }: Move): Moved {
    const mark = this.marks.get(userId)
    const key = `${userId} ${orderNo}`
    const rec = mark?.orderNo === orderNo ? mark : this.beside.get(key)
    if (!rec) {
      if (this.released.has(orderNo)) return to === 'released' ? 'already' : 'refused'
      if (to === 'released') return 'unknown'
      const adopted = { state: to, orderNo, quantity, token: '' }
      if (!mark || mark.state === 'released') this.marks.set(userId, adopted)
      else this.beside.set(key, adopted)
      const there = Math.min(this.available, quantity)
      this.available -= there
      this.over += quantity - there
      this[to === 'paid' ? 'sold' : 'frozen'] += quantity
      return 'adopted'
    }
    if (rec.state === 'released') return to === 'released' ? 'already' : 'refused'
    if (rec.state === 'paid' && to === 'released') return 'refused'
    // A live order has the mark as soon as no other live one has it.
    const homeless = rec !== mark && (!mark || mark.state === 'released')
    if (homeless && to !== 'released') {
      this.beside.delete(key)
      this.marks.set(userId, rec)
    }
    if (rec.state === to || rec.state === 'paid') return homeless ? 'done' : 'already'
    if (rec.state === 'held') {
      this.pending -= rec.quantity
      this.waiting -= 1
    }
    rec.state = to
    if (to === 'confirmed') return 'done'
    this.frozen -= rec.quantity
    if (to === 'paid') this.sold += rec.quantity
    else {
      const owed = Math.min(this.over, rec.quantity)
      this.over -= owed
      this.available += rec.quantity - owed
      this.released.add(orderNo)
    }
    return 'done'
  }

  /** How many buckets took it: an act that comes after a later one is none any more. */
  control(to: SaleState, revision?: number): number {
    if (revision !== undefined && revision < this.revision) return 0
    this.revision = revision ?? this.revision
    this.open = to === 'open'
    return 1
  }

  topUp(units: number, operation: string): 'ok' | 'refused' {
    if (this.operations.has(operation)) return 'ok'
    if (this.S + units < 0) return 'refused'
    this.operations.add(operation)
    this.S += units
    if (units > 0) {
      const owed = Math.min(this.over, units)
      this.over -= owed
      this.available += units - owed
    } else {
      const there = Math.min(this.available, -units)
      this.available -= there
      this.over += -units - there
    }
    return 'ok'
  }

  numbers() {
    const { available, frozen, sold, pending, over, waiting } = this
    return { total: available + frozen + sold, available, frozen, sold, pending, over, waiting }
  }

  /** Field and record of each buyer, as Redis should hold them, without the instants. */
  ledger(): Record<string, string> {
    const rows: Record<string, string> = {}
    const write = (field: string, r: Rec) => {
      rows[field] = `${r.state[0]}|${r.orderNo}|${r.quantity}|${r.token}`
    }
    for (const [userId, rec] of this.marks) write(userId, rec)
    for (const [key, rec] of this.beside) write(` ${key}`, rec)
    return rows
  }

  /** All records, as those who ask for them are told. */
  records() {
    const beside = [...this.beside].map(([key, r]) => [key.split(' ')[0] as string, r] as const)
    return [...this.marks, ...beside].map(([userId, { state, orderNo, quantity }]) => ({
      ...{ userId, orderNo, state, quantity },
    }))
  }

  clone(): SaleModel {
    const { tokens, ...rest } = this
    return Object.assign(Object.create(SaleModel.prototype), structuredClone(rest), { tokens })
  }
}
