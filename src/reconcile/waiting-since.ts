const MAX_KEPT = 10_000

/** How long things have been seen to wait, by this process: payments tell no time. Starts anew with the process. */
export class WaitingSince {
  readonly #since = new Map<string, { readonly firstAt: number; lastRun: number }>()
  #run = 0

  constructor(private readonly graceMs: number) {}

  /** Forgets what the run before did not see. */
  begin(): void {
    for (const [what, seen] of this.#since) if (seen.lastRun < this.#run) this.#since.delete(what)
    this.#run++
  }

  tooLong(what: string): boolean {
    const now = performance.now()
    const seen = this.#since.get(what)
    if (seen) seen.lastRun = this.#run
    else if (this.#since.size < MAX_KEPT)
      this.#since.set(what, { firstAt: now, lastRun: this.#run })
    return now - (seen?.firstAt ?? now) >= this.graceMs
  }
}
