import { FlashSaleError } from '../core/errors.js'

/** An aborted signal ends a run at its next step. */
export function stopIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted)
    throw new FlashSaleError('STOPPED', 'stopped before it was through', { cause: signal.reason })
}
