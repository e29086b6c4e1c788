/** The pause after the first, second, … try that failed; the last is repeated (the source's 1 s, 5 s, 30 s, 2 min, 10 min). */
export const BACKOFF_MS = [1_000, 5_000, 30_000, 120_000, 600_000] as const

/** What failed so often goes to a person (the source's figure). With the pauses above that is after 53 minutes. */
export const MAX_TRIES = 10
