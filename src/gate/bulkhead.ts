import * as check from '../core/check.js'
import type { Busy } from '../core/types.js'

export interface BulkheadOptions {
  /** Calls at work at once, 1 to 100,000. */
  readonly maxConcurrent: number
  /** Calls that may wait for a place; more are refused without a wait. @defaultValue 0 */
  readonly maxWaiting?: number
  /** How long they may wait, in ms. @defaultValue 200 */
  readonly maxWaitMs?: number
}

interface Waiting {
  readonly go: () => void
}

const FULL: Busy = Object.freeze({ status: 'busy', cause: 'waiting-room', retryAfterMs: 1_000 })

/**
 * A bounded number of calls to one thing, so that what is slow there does not use up what the rest of the host lives on.
 *
 * A StockBucket needs none in front of it: its waiting room is one. This is for what has none, such as strong mode's
 * calls to the database or result queries.
 */
export class Bulkhead {
  private readonly maxConcurrent: number
  private readonly maxWaiting: number
  private readonly maxWaitMs: number
  private readonly queue = new Set<Waiting>()
  private working = 0

  constructor(o: BulkheadOptions) {
    check.object(o, 'options')
    this.maxConcurrent = check.int(
      o.maxConcurrent,
      'option maxConcurrent',
      1,
      100_000,
      'BAD_OPTION',
    )
    this.maxWaiting = check.option(o.maxWaiting, 'maxWaiting', 0, 0, 1_000_000)
    this.maxWaitMs = check.option(o.maxWaitMs, 'maxWaitMs', 200, 1, 60_000)
  }

  get load(): { readonly working: number; readonly waiting: number } {
    return { working: this.working, waiting: this.queue.size }
  }

  /**
   * What `call` answers, or `busy` without calling it. Who came first goes first.
   *
   * @param signal aborts the wait (rejecting with its reason), never a call begun
   */
  async run<T>(call: () => Promise<T>, signal?: AbortSignal): Promise<T | Busy> {
    signal?.throwIfAborted()
    if (this.working < this.maxConcurrent) this.working++
    else if (this.queue.size >= this.maxWaiting || !(await this.place(signal))) return FULL
    try {
      return await call()
    } finally {
      this.leave()
    }
  }

  /** A place is handed on, never given up in between: a newcomer cannot overtake who waits. */
  private leave(): void {
    for (const next of this.queue) {
      this.queue.delete(next)
      next.go()
      return
    }
    this.working--
  }

  private place(signal: AbortSignal | undefined): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', aborted)
        this.queue.delete(waiting)
      }
      const waiting: Waiting = {
        go: () => {
          end()
          resolve(true)
        },
      }
      const aborted = () => {
        end()
        reject(signal?.reason)
      }
      const timer = setTimeout(() => {
        end()
        resolve(false)
      }, this.maxWaitMs)
      timer.unref?.()
      signal?.addEventListener('abort', aborted, { once: true })
      this.queue.add(waiting)
    })
  }
}
