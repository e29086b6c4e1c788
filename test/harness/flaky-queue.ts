import type { Batch, Queue, Sent } from 'flash-sale-kit'

/** How a send fails: refused, lost without an answer, or carried out although the answer says unknown. */
const FAILURES = ['rejected', 'unknown-lost', 'unknown-sent'] as const

/** A queue that fails a share of its sends, in turn in all three ways; everything else is the queue's own. */
export function flakyQueue(queue: Queue, share: number): Queue {
  let failed = 0
  return {
    start: () => queue.start(),
    stop: (o) => queue.stop(o),
    consume: (handler, o) => queue.consume(handler, o),
    lag: () => queue.lag(),
    [Symbol.asyncDispose]: () => queue.stop(),
    async send(batch: Batch, o: { readonly signal: AbortSignal }): Promise<Sent> {
      if (Math.random() >= share) return queue.send(batch, o)
      const failure = FAILURES[failed++ % FAILURES.length]
      if (failure === 'rejected') return 'rejected'
      if (failure === 'unknown-sent') await queue.send(batch, o)
      return 'unknown'
    },
  }
}
