import { FlashSaleError } from '../../core/errors.js'
import { type Trouble, withoutStatement } from './troubles.js'

/** A statement of ours failed, or the transaction's beginning or end. */
export class StatementFailed extends Error {
  constructor(
    readonly trouble: Trouble,
    error: unknown,
    /** Whether it was the COMMIT, with an error that does not say that nothing was committed. */
    readonly mayHaveCommitted = false,
  ) {
    super('statement failed', { cause: withoutStatement(error) })
  }
}

/** Somebody else was faster: the unit is rolled back and repeated from its first look. */
export class Conflict extends Error {}

/** The host's hook threw, for a reason of its own. */
export class HookFailed extends Error {
  constructor(error: unknown) {
    super('hook failed', { cause: error })
  }
}

/** What the caller is told once a unit is given up. */
export function givenUp(
  failure: StatementFailed | Conflict,
  mayHaveCommitted: boolean,
): FlashSaleError {
  const cause = failure instanceof StatementFailed ? failure.cause : failure
  const why = cause instanceof Error ? cause.message : String(cause)
  if (mayHaveCommitted)
    return new FlashSaleError(
      'OUTCOME_UNKNOWN',
      `the answer to a COMMIT was lost and could not be looked up: ${why}`,
      { cause },
    )
  if (failure instanceof Conflict || failure.trouble === 'retry' || failure.trouble === 'duplicate')
    return new FlashSaleError('DB_BUSY', `the database was too busy, nothing was written: ${why}`, {
      cause,
    })
  return new FlashSaleError(
    'DB_UNAVAILABLE',
    `the database did not write, nothing was written: ${why}`,
    {
      cause,
    },
  )
}
