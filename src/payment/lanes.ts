import { inLanes } from '../core/lanes.js'
import type { Parts } from './parts.js'

/** Works on so many at once; one that throws is alerted, and does not hold up the others. */
export async function allInLanes<T>(
  parts: Parts,
  lanes: number,
  items: readonly T[],
  signal: AbortSignal | null,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const one = async (item: T) => {
    if (signal?.aborted) return
    try {
      await work(item)
    } catch (error) {
      parts.alert('payment-keeper-failed', { error })
    }
  }
  await Promise.all(inLanes(lanes, items, one))
}
