import type { Parts } from './parts.js'

/** Works on so many at once; one that throws is alerted, and does not hold up the others. */
export async function inLanes<T>(
  parts: Parts,
  lanes: number,
  items: readonly T[],
  signal: AbortSignal | null,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  let next = 0
  const lane = async () => {
    while (next < items.length && !signal?.aborted) {
      try {
        await work(items[next++] as T)
      } catch (error) {
        parts.alert('payment-keeper-failed', { error })
      }
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
}
