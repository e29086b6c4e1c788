import type { RocketmqMessage } from './sdk.js'

/** The protocol's numbers; at UNKNOWN the client answers nothing, and the broker asks again. */
const [UNKNOWN, COMMIT, ROLLBACK] = [0, 1, 2]

export interface CheckBackOptions {
  readonly committed: (bizNo: string) => Promise<boolean>
  readonly workLimitMs: number
  /** Once aborted, no answer is given: there is nobody to give it to. */
  readonly abandoned: AbortSignal
  /** May not throw. */
  readonly onError: (error: unknown) => void
}

/**
 * Answers a broker that asks what became of a message it holds back, whoever sent it: any sender of the topic is asked. A
 * number that is not there yet may still be at work elsewhere; it is taken back only once that work's time is over.
 */
export class CheckBack {
  constructor(private readonly o: CheckBackOptions) {}

  /** Called by the client; never rejects. */
  async check({ keys, bornTimestamp }: RocketmqMessage): Promise<number> {
    try {
      const [bizNo] = keys ?? []
      if (bizNo === undefined || bornTimestamp === undefined)
        throw new Error('a message without key or time on a topic of transactions')
      const ageMs = Date.now() - bornTimestamp.getTime() // before the look-up: it is as old as what it finds
      const isThere = await this.o.committed(bizNo)
      if (typeof isThere !== 'boolean')
        throw new TypeError(`committed must answer true or false, got ${isThere}`)
      if (this.o.abandoned.aborted) return UNKNOWN
      if (isThere) return COMMIT
      return ageMs > this.o.workLimitMs ? ROLLBACK : UNKNOWN
    } catch (error) {
      this.o.onError(error)
      return UNKNOWN
    }
  }
}
