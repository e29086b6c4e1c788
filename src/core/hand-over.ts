import type { BatchHandler, Delivery, Handled } from './queue.js'

const KNOWN: ReadonlySet<unknown> = new Set<Handled>(['ack', 'retry', 'dead'])

export const isHandled = (said: unknown): said is Handled => KNOWN.has(said)

/** Calls the handler and says what becomes of each batch. A throw, or what is no answer, is `retry`: nothing is lost by it. */
export async function handOver(
  handler: BatchHandler,
  delivery: Delivery,
): Promise<readonly Handled[]> {
  const all = (handled: Handled) => delivery.batches.map(() => handled)
  try {
    const said = await handler(delivery)
    if (typeof said === 'string') return isHandled(said) ? all(said) : all('retry')
    const whole = Array.isArray(said) && said.length === delivery.batches.length
    return whole && said.every(isHandled) ? said : all('retry')
  } catch {
    return all('retry')
  }
}
