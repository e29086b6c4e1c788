/** So many calls in a row. */
const ENOUGH = 3

/** Channels that cost a round its time for nothing: each is asked no more before the next. */
export class Silence {
  readonly #inARow = new Map<string, number>()

  isOf(channel: string): boolean {
    return (this.#inARow.get(channel) ?? 0) >= ENOUGH
  }

  /** What a channel's call came to; a quick failure is no silence. */
  note(channel: string, silent: boolean): void {
    this.#inARow.set(channel, silent ? (this.#inARow.get(channel) ?? 0) + 1 : 0)
  }
}
