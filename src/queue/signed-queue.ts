import * as check from '../core/check.js'
import { handOver } from '../core/hand-over.js'
import type { BatchHandler, Queue } from '../core/queue.js'
import { quiet } from '../core/quiet.js'
import type { Batch } from '../core/types.js'
import { type MacFault, type MessageKey, MessageMacs } from './message-mac.js'

export interface SignedQueueOptions {
  /** The first signs, all verify. To rotate: add the new key behind, then move it to the front, then drop the old one. */
  readonly keys: readonly MessageKey[]
  /** Told of each message that was set aside because of its MAC. */
  readonly onForged?: (batch: Batch, fault: MacFault) => void
}

/**
 * A queue whose messages carry a MAC, made at send and checked before any handler sees them: whoever can write to the
 * broker cannot make orders. What fails is `dead`; the rest of the same hand-over goes on. Handlers and callbacks see
 * batches without it.
 *
 * Messages sent without it fail too: switch it on between two sales, or while the queue is empty.
 */
export function signedQueue(queue: Queue, o: SignedQueueOptions): Queue {
  if (typeof queue?.send !== 'function' || typeof queue.consume !== 'function')
    check.fail('BAD_OPTION', 'queue', 'a Queue', queue)
  check.object(o, 'options')
  const onForged = quiet('onForged', o.onForged)
  const macs = new MessageMacs(o.keys)
  return {
    start: () => queue.start(),
    stop: (s) => queue.stop(s),
    [Symbol.asyncDispose]: () => queue[Symbol.asyncDispose](),
    lag: () => queue.lag(),
    async send(batch, s) {
      check.object(batch, 'batch')
      check.array(batch.reservations, 'batch.reservations')
      return queue.send(macs.sign(batch), s)
    },
    consume: (handler, c) => queue.consume(checking(handler, macs, onForged), c),
  }
}

function checking(
  handler: BatchHandler,
  macs: MessageMacs,
  onForged: NonNullable<SignedQueueOptions['onForged']>,
): BatchHandler {
  if (typeof handler !== 'function') check.fail('BAD_INPUT', 'handler', 'a function', handler)
  return async (delivery) => {
    const faults = delivery.batches.map((batch) => macs.fault(batch))
    const batches: Batch[] = []
    for (const [i, { mac: _, ...batch }] of delivery.batches.entries()) {
      const fault = faults[i]
      if (fault) onForged(batch, fault)
      else batches.push(batch)
    }
    const handled = batches.length > 0 ? await handOver(handler, { ...delivery, batches }) : []
    let next = 0
    return faults.map((fault) => (fault ? 'dead' : (handled[next++] ?? 'retry')))
  }
}
