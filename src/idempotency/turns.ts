import { within } from '../core/background.js'

/**
 * One caller at a time for each key, within this process. The database would keep them apart too, but at a price: on
 * MySQL, when the first of several waiters on one unique key rolls back, all get a shared lock, each wants an exclusive
 * one, and all but one die of the deadlock (measured: 18 of 20). So at most one of a process waits there.
 */
export class Turns {
  /** For each key the turn that is taken: resolves when it is given back. */
  readonly #taken = new Map<string, Promise<void>>()

  /**
   * Waits for the key's turn and takes it; call the result to give it back.
   *
   * @param until by `performance.now()`
   * @returns null when the time was up first
   */
  async take(key: string, until: number): Promise<(() => void) | null> {
    for (;;) {
      const taken = this.#taken.get(key)
      if (!taken) break
      const ms = until - performance.now()
      const free = taken.then(() => true)
      if (ms <= 0 || !(await within(free, ms, () => false))) return null
    }
    let giveBack = () => {}
    const turn = new Promise<void>((resolve) => {
      giveBack = () => {
        this.#taken.delete(key)
        resolve()
      }
    })
    this.#taken.set(key, turn)
    return giveBack
  }
}
