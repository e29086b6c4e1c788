import { setTimeout as sleep } from 'node:timers/promises'
import { HookFailed } from '../sql/failures.js'

const TRIES = 3
const PAUSE_MS = 30

/**
 * Runs a unit of many orders; when the host's hook throws, halves it until the order that does it stands alone, and
 * gives that one up after three tries. One such order among 256 costs 16 further transactions.
 */
export async function traceToOne<T, R>(
  items: readonly T[],
  run: (items: readonly T[]) => Promise<readonly R[]>,
  giveUp: (item: T, cause: unknown) => Promise<readonly R[]>,
): Promise<readonly R[]> {
  for (let tries = 1; ; tries++) {
    try {
      return await run(items)
    } catch (error) {
      if (!(error instanceof HookFailed)) throw error
      if (items.length > 1) {
        const middle = items.length >> 1
        const first = await traceToOne(items.slice(0, middle), run, giveUp)
        return [...first, ...(await traceToOne(items.slice(middle), run, giveUp))]
      }
      if (tries === TRIES) return giveUp(items[0] as T, error.cause)
      await sleep(PAUSE_MS * tries)
    }
  }
}
