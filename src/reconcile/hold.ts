import { follow } from '../core/background.js'
import type { Lease } from '../core/ports.js'

/** A lease kept while work goes on under it. Its end is reckoned from before it was asked for, so never too late. */
export class Hold {
  readonly #abort = new AbortController()
  #validUntil: number
  #renewing: Promise<boolean> | null = null
  readonly #timer: NodeJS.Timeout
  readonly #unfollow: () => void

  constructor(
    private readonly lease: Lease,
    private readonly leaseMs: number,
    askedAt: number,
    stop: AbortSignal | undefined,
  ) {
    this.#unfollow = follow(this.#abort, stop)
    this.#validUntil = askedAt + leaseMs
    this.#timer = setInterval(() => void this.isMine(), leaseMs / 3)
    this.#timer.unref?.()
  }

  /** Aborts when the lease is lost, or the holder is stopped. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Asked before each write, also by a process that was frozen a moment ago: no time passes between the answer and the write. */
  async isMine(): Promise<boolean> {
    if (this.#abort.signal.aborted) return false
    if (performance.now() < this.#validUntil - this.leaseMs / 2) return true
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = null
    })
    return this.#renewing
  }

  async end(): Promise<void> {
    clearInterval(this.#timer)
    this.#unfollow()
    await this.lease.release()
  }

  async #renew(): Promise<boolean> {
    const askedAt = performance.now()
    try {
      if (await this.lease.renew(this.leaseMs)) {
        this.#validUntil = askedAt + this.leaseMs
        return true
      }
    } catch {
      // A database that does not answer: the lease still is ours until it ends.
      if (performance.now() < this.#validUntil) return true
    }
    this.#abort.abort(new Error('the lease was lost'))
    return false
  }
}
