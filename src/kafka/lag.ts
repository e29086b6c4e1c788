interface Ends {
  readonly partition: number
  /** First offset that is still in the log. */
  readonly low: string
  /** The offset the next message will get. */
  readonly high: string
}

interface Committed {
  readonly partition: number
  /** The offset to go on from; negative when the group has committed nothing. */
  readonly offset: string
}

/**
 * Messages of all `partitions` that a group has not committed. Never negative: ends that are older than the commit count
 * as nothing, and what the log has dropped is not waited for. Offsets are 64-bit and come as strings, so the reckoning is
 * in BigInt. A partition that one of the answers lacks is not 0 but `unknown`.
 */
export function lagOf(
  partitions: readonly number[],
  committed: readonly Committed[],
  ends: readonly Ends[],
): number | 'unknown' {
  let sum = 0n
  for (const partition of partitions) {
    const end = ends.find((e) => e.partition === partition)
    const done = committed.find((c) => c.partition === partition)
    if (!end || !done) return 'unknown'
    const [low, high, offset] = [whole(end.low), whole(end.high), whole(done.offset)]
    if (low === null || high === null || offset === null) return 'unknown'
    if (offset < low) sum += high - low
    else if (offset < high) sum += high - offset
  }
  return sum > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(sum)
}

function whole(offset: unknown): bigint | null {
  return typeof offset === 'string' && /^-?\d{1,19}$/.test(offset) ? BigInt(offset) : null
}
