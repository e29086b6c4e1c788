import type { Sent } from '../core/types.js'

/**
 * What the proxy answers when it looked at the message and stored nothing. Left out, because the broker may have it:
 * 40800 (request timeout), 500xx (internal, also an unavailable replica), 504xx (proxy or disk too slow).
 */
const REFUSED: readonly (readonly [from: number, to: number])[] = [
  [40_000, 40_499], // bad request, topic, keys, group; unauthorized, unpaid, forbidden, not found
  [41_300, 41_399], // payload or body too large, or empty
  [42_900, 42_999], // too many requests
  [43_100, 43_199], // properties too large
]

/** What the client says before it has sent anything. */
const BEFORE_SENDING = [
  /^Current message type not match/,
  /^Message body size exceeds the threshold/,
]

/**
 * Of a send that failed: `rejected` if the broker surely does not have the message. When in doubt, `unknown`; and also when
 * no broker could be reached, though nothing was sent then: a refusal closes each order of the batch in the database, and
 * an outage would do so for a whole crowd, past every cap. Owed, the batches are sent when the broker is back.
 */
export function outcomeOf(error: unknown): Exclude<Sent, 'accepted'> {
  if (!(error instanceof Error)) return 'unknown'
  const { code } = error as { readonly code?: unknown }
  if (typeof code === 'number' && REFUSED.some(([from, to]) => code >= from && code <= to))
    return 'rejected'
  return BEFORE_SENDING.some((known) => known.test(error.message)) ? 'rejected' : 'unknown'
}
