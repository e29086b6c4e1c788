import type { Background } from './ports.js'
import type { Batch, Sent } from './types.js'

/** What a consumer is handed: several batches, delivered for the `attempt`-th time (1 is the first). */
export interface Delivery {
  readonly batches: readonly Batch[]
  readonly attempt: number
  readonly signal: AbortSignal
}

/** What becomes of a message. `ack`: done. `retry`: deliver again, after a pause. `dead`: set aside for a person. */
export type Handled = 'ack' | 'retry' | 'dead'

/** One answer for all batches of the delivery, or one for each in their order. A throw counts as `retry`. */
export type BatchHandler = (delivery: Delivery) => Promise<Handled | readonly Handled[]>

/** Await neither `pause` nor `stop` within the handler: they wait for it. */
export interface Consumer {
  /** Resolves when the hand-over that runs has ended; no further one starts. */
  pause(): Promise<void>
  resume(): void
  /** Aborts the signal of the delivery, lets the handler that runs end, then resolves. Idempotent. */
  stop(): Promise<void>
}

/** Carries batches from the deduction to the database. Duplicates and any order are allowed; silent loss is repaired. */
export interface Queue extends Background {
  /**
   * Never rejects for a refused or lost message: that is `rejected` or `unknown`. A message over the size limit, and any
   * message once the queue was stopped, is not `accepted`.
   */
  send(batch: Batch, o: { readonly signal: AbortSignal }): Promise<Sent>
  /** Begins to hand over, at most `maxBatches` at a time and one hand-over after the other. */
  consume(handler: BatchHandler, o: { readonly maxBatches: number }): Consumer
  /** Messages (not orders) not yet acknowledged, and the age of the oldest. */
  lag(): Promise<{ readonly messages: number; readonly oldestAgeMs: number | null } | 'unknown'>
}
