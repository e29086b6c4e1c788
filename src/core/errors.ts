/**
 * Why something is broken. What a buyer can be told is never an error but a `status`.
 *
 * - `BAD_OPTION`, `BAD_INPUT`: the caller's mistake, found before any I/O (or, where said, within a transaction that was
 *   undone); nothing was written.
 * - `BAD_MESSAGE`: a message no consumer can read.
 * - `REDIS_REFUSED`: Redis said no before doing anything (read-only, loading, out of memory, moved slot, …).
 * - `REDIS_UNAVAILABLE`: no answer to a read; nothing was at stake.
 * - `CORRUPT`: stored data that the library cannot trust; it was left alone.
 * - `OUTCOME_UNKNOWN`: the call may or may not have taken effect; look again by order number.
 * - `DB_BUSY`: no connection or lock within the limit; nothing was written.
 * - `DB_UNAVAILABLE`: the database cannot write now (down, read-only); nothing was written.
 * - `QUEUE_UNAVAILABLE`: the broker could not be reached, or its topic or group is missing; nothing was sent.
 * - `NOT_WARMED`: the keys of the activity are missing, or not of one piece.
 * - `STOPPED`: the object was stopped.
 */
export type ErrorCode =
  | 'BAD_OPTION'
  | 'BAD_INPUT'
  | 'BAD_MESSAGE'
  | 'REDIS_REFUSED'
  | 'REDIS_UNAVAILABLE'
  | 'CORRUPT'
  | 'OUTCOME_UNKNOWN'
  | 'DB_BUSY'
  | 'DB_UNAVAILABLE'
  | 'QUEUE_UNAVAILABLE'
  | 'NOT_WARMED'
  | 'STOPPED'

/** The only error class the library throws; tell errors apart by {@link FlashSaleError.code}. */
export class FlashSaleError extends Error {
  override readonly name = 'FlashSaleError'

  constructor(
    readonly code: ErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}
