import * as check from '../core/check.js'

/** A clock that stands still until it is told, for `clock` options: `new TokenIssuer({ keys, clock: clock.now })`. */
export class ManualClock {
  #at: number

  /** @param at epoch milliseconds */
  constructor(at = 1_790_000_000_000) {
    this.#at = check.int(at, 'at', 0, Number.MAX_SAFE_INTEGER)
  }

  readonly now = (): number => this.#at

  /** Negative: back, as clocks are set back. */
  advance(ms: number): void {
    const most = Number.MAX_SAFE_INTEGER
    this.#at += check.int(ms, 'ms', -this.#at, most - this.#at)
  }
}
