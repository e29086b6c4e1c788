import type { OutboxHandler, OutboxMessage } from '../core/outbox.js'
import { type Check, type ConformanceCase, casesOf } from './conformance.js'
import { HandlerBench } from './outbox/bench.js'
import { handing } from './outbox/handing.js'

/** A host's outbox handler, and whoever it sends to, or a stub of it. */
export interface OutboxHandlerUnderTest {
  readonly handler: OutboxHandler
  /** A message that can be sent; all are of one topic, each has a number of its own. */
  message(): OutboxMessage
  /** How often what was sent under a number is in effect with the receiver, once he has read all that he was sent. */
  received(bizNo: string): Promise<number>
  /** Feature `outage`: from now on nobody can be reached, or everybody again. */
  outage?(begins: boolean): Promise<void>
  /** Feature `poison`: a message that can never be sent. */
  poison?(): OutboxMessage
  close(): Promise<void>
}

/** `outage`: the receiver can be away. `poison`: there are messages that can never be sent. */
export type OutboxHandlerFeature = 'outage' | 'poison'

export type OutboxHandlerCheck = Check<HandlerBench, OutboxHandlerFeature>

/**
 * Runs a host's outbox handler as the dispatcher does: in groups, again though the message was sent, in halves beside one at
 * fault, beside another process, cut off.
 *
 * @param features cases that need another are left out
 */
export function outboxHandlerSuite(
  features: readonly OutboxHandlerFeature[],
): readonly ConformanceCase<OutboxHandlerUnderTest>[] {
  return casesOf(
    'outboxHandlerSuite',
    handing,
    features,
    (under: OutboxHandlerUnderTest) => new HandlerBench(under),
  )
}
