import { randomBytes } from 'node:crypto'

/**
 * 64 bits of a text, as two words. Seeded anew for each, so that nobody can make numbers that meet. Two of a million meet
 * with a chance of 1 in 37 million, and then are looked at by name.
 */
export class SeededHash {
  readonly #seeds = new Uint32Array(new Uint8Array(randomBytes(8)).buffer)
  low = 0
  high = 0

  /** Leaves its result in {@link low} and {@link high}: a million results need no million objects. */
  of(text: string): this {
    let a = 0xdeadbeef ^ (this.#seeds[0] as number)
    let b = 0x41c6ce57 ^ (this.#seeds[1] as number)
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i)
      a = Math.imul(a ^ code, 2654435761)
      b = Math.imul(b ^ code, 1597334677)
    }
    a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909)
    b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909)
    this.low = a >>> 0
    this.high = b >>> 0
    return this
  }
}

/** Slots for so many entries: three quarters full at most. At least 16, and at first no more than 2 million. */
export function slotsFor(expected: number): number {
  return Math.ceil(Math.max(16, Math.min(expected, 1_500_000) / 0.75))
}

/** Where a hash belongs among any number of slots. */
export function home(low: number, slots: number): number {
  return Math.floor((low / 4_294_967_296) * slots)
}
