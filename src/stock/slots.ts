/** Bounds how many run at once. Places are handed over in the order they were asked for. */
export class Slots {
  private readonly waiting: (() => void)[] = []

  constructor(private free: number) {}

  /** Resolves with what gives the place back; calling it again changes nothing. */
  async take(): Promise<() => void> {
    if (this.free > 0) this.free--
    else await new Promise<void>((resolve) => this.waiting.push(resolve))
    let given = false
    return () => {
      if (given) return
      given = true
      const next = this.waiting.shift()
      if (next) next()
      else this.free++
    }
  }
}
