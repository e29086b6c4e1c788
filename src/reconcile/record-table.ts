import type { ReservationState } from '../core/types.js'
import { home, SeededHash, slotsFor } from './seeded-hash.js'

const STATES: readonly ReservationState[] = ['held', 'confirmed', 'paid', 'released']
const STATE_BITS = 0b111
/** A row of this number was compared with the record. */
const MATCHED = 0b1000
/** Two buyers have it: to be looked at by name, whatever the states. */
const TWICE = 0b1_0000
const QUANTITY_SHIFT = 8
/** What does not fit is told apart from every order, which has 1,000 units at most. */
const MAX_QUANTITY = 0xff_ffff

export interface RecordSums {
  readonly held: number
  readonly confirmed: number
  readonly paid: number
  readonly heldOrders: number
}

/**
 * What Redis says of each order number, at 16 bytes a slot and no object: a million take 21 MB, where a Map of records takes
 * ten times that. Open addressing on 64-bit hashes; numbers themselves are not kept.
 */
export class RecordTable {
  /** Of numbers and of buyers. */
  readonly hash = new SeededHash()
  #columns: Columns
  #size = 0

  /** `expected` entries are there without growing. */
  constructor(expected = 0) {
    this.#columns = columns(slotsFor(expected))
  }

  get size(): number {
    return this.#size
  }

  /** HSCAN may show a record twice: the later state counts. */
  put(orderNo: string, state: ReservationState, quantity: number, userId: string): void {
    if (this.#size >= this.#columns.meta.length * 0.75) this.#grow()
    const owner = this.hash.of(userId).low
    const slot = this.#slot(orderNo)
    const { low, high, meta, owners } = this.#columns
    const before = meta[slot] as number
    if (before === 0) {
      this.#size++
      low[slot] = this.hash.low
      high[slot] = this.hash.high
      owners[slot] = owner
    }
    const flags = owners[slot] === owner ? before & TWICE : TWICE
    const units = Math.min(quantity, MAX_QUANTITY)
    meta[slot] = ((units << QUANTITY_SHIFT) | flags | (STATES.indexOf(state) + 1)) >>> 0
  }

  /** Its slot, or -1. */
  find(orderNo: string): number {
    const slot = this.#slot(orderNo)
    return this.#columns.meta[slot] === 0 ? -1 : slot
  }

  state(slot: number): ReservationState {
    return STATES[(this.#meta(slot) & STATE_BITS) - 1] as ReservationState
  }

  quantity(slot: number): number {
    return this.#meta(slot) >>> QUANTITY_SHIFT
  }

  /** `owner`: the low word of the hash of his name. */
  isOf(slot: number, owner: number): boolean {
    return this.#columns.owners[slot] === owner
  }

  /** Its row was compared, and what came of it is noted elsewhere. */
  match(slot: number): void {
    this.#columns.meta[slot] = (this.#meta(slot) | MATCHED) >>> 0
  }

  /** Nothing more to ask about it. */
  isSettled(slot: number): boolean {
    return (this.#meta(slot) & (MATCHED | TWICE)) === MATCHED
  }

  hasLeftovers(): boolean {
    return this.#columns.meta.some((meta) => meta !== 0 && (meta & (MATCHED | TWICE)) !== MATCHED)
  }

  sums(): RecordSums {
    const units = [0, 0, 0, 0]
    let heldOrders = 0
    const { meta } = this.#columns
    for (let slot = 0; slot < meta.length; slot++) {
      const state = ((meta[slot] as number) & STATE_BITS) - 1
      if (state < 0) continue
      units[state] = (units[state] as number) + this.quantity(slot)
      if (state === 0) heldOrders++
    }
    const [held = 0, confirmed = 0, paid = 0] = units
    return { held, confirmed, paid, heldOrders }
  }

  #meta(slot: number): number {
    return this.#columns.meta[slot] as number
  }

  /** The slot of a number, or the empty one where it would go. */
  #slot(orderNo: string): number {
    this.hash.of(orderNo)
    const wanted = this.hash
    const { low, high, meta } = this.#columns
    let slot = home(wanted.low, meta.length)
    while (meta[slot] !== 0 && (low[slot] !== wanted.low || high[slot] !== wanted.high))
      if (++slot === meta.length) slot = 0
    return slot
  }

  #grow(): void {
    const old = this.#columns
    const slots = Math.ceil(old.meta.length * 1.5)
    const grown = columns(slots)
    for (let from = 0; from < old.meta.length; from++) {
      if (old.meta[from] === 0) continue
      let slot = home(old.low[from] as number, slots)
      while (grown.meta[slot] !== 0) if (++slot === slots) slot = 0
      for (const name of ['low', 'high', 'meta', 'owners'] as const)
        grown[name][slot] = old[name][from] as number
    }
    this.#columns = grown
  }
}

interface Columns {
  readonly low: Uint32Array
  readonly high: Uint32Array
  /** State, flags and quantity; 0: empty. */
  readonly meta: Uint32Array
  readonly owners: Uint32Array
}

function columns(slots: number): Columns {
  const column = () => new Uint32Array(slots)
  return { low: column(), high: column(), meta: column(), owners: column() }
}
