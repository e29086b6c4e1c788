import { home, type SeededHash, slotsFor } from './seeded-hash.js'

/** A set of names by their 64-bit hashes, 8 bytes a slot. */
export class NameSet {
  #low: Uint32Array
  /** 0: empty. */
  #high: Uint32Array
  #size = 0

  constructor(expected: number) {
    this.#low = new Uint32Array(slotsFor(expected))
    this.#high = new Uint32Array(slotsFor(expected))
  }

  /** False when it (or, in 1 of 37 million sets of a million names, another with the same hash) was there already. */
  add({ low, high }: Pick<SeededHash, 'low' | 'high'>): boolean {
    if (this.#size >= this.#low.length * 0.75) this.#grow()
    const added = this.#insert(low, high || 1)
    if (added) this.#size++
    return added
  }

  #insert(low: number, high: number): boolean {
    const slots = this.#low.length
    let slot = home(low, slots)
    while (this.#high[slot] !== 0) {
      if (this.#low[slot] === low && this.#high[slot] === high) return false
      if (++slot === slots) slot = 0
    }
    this.#low[slot] = low
    this.#high[slot] = high
    return true
  }

  #grow(): void {
    const [low, high] = [this.#low, this.#high]
    const slots = Math.ceil(low.length * 1.5)
    this.#low = new Uint32Array(slots)
    this.#high = new Uint32Array(slots)
    for (let i = 0; i < high.length; i++)
      if (high[i] !== 0) this.#insert(low[i] as number, high[i] as number)
  }
}
