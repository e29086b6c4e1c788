/** Answers with which a broker says no to a record before it has written it. */
const REFUSED = new Set([
  'MESSAGE_TOO_LARGE',
  'RECORD_LIST_TOO_LARGE',
  'INVALID_TOPIC_EXCEPTION',
  'UNKNOWN_TOPIC_OR_PARTITION',
  'TOPIC_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'SASL_AUTHENTICATION_FAILED',
  'INVALID_TIMESTAMP',
  'INVALID_RECORD',
  'INVALID_REQUIRED_ACKS',
  'UNSUPPORTED_FOR_MESSAGE_FORMAT',
  'POLICY_VIOLATION',
])

/** The broker let this member go, or is about to: it has to join again. */
const MEMBERSHIP = new Set([
  'REBALANCE_IN_PROGRESS',
  'ILLEGAL_GENERATION',
  'UNKNOWN_MEMBER_ID',
  'NOT_COORDINATOR_FOR_GROUP',
])

/** The protocol's name of an error; kafkajs wraps what it gave up on, two deep at most. */
export function kafkaCode(error: unknown): string | null {
  let e = error as { type?: unknown; cause?: unknown } | null | undefined
  for (let depth = 0; depth < 4 && typeof e === 'object' && e !== null; depth++) {
    if (typeof e.type === 'string') return e.type
    e = e.cause as typeof e
  }
  return null
}

/** True for a definite no. All else (a timeout, a closed socket, a leader that moved) may have been written. */
export function isRefusal(error: unknown): boolean {
  return REFUSED.has(kafkaCode(error) ?? '')
}

/** A broker that has just started says so of topics it will know in a moment. */
export function mayPass(refusal: unknown): boolean {
  return kafkaCode(refusal) === 'UNKNOWN_TOPIC_OR_PARTITION'
}

export function isMembership(error: unknown): boolean {
  return MEMBERSHIP.has(kafkaCode(error) ?? '')
}
