import type { Queue } from '../core/queue.js'
import type { Batch } from '../core/types.js'
import { type Check, type ConformanceCase, casesOf } from './conformance.js'
import { Bench } from './queue/bench.js'
import { carrying } from './queue/carrying.js'
import { outcomes } from './queue/outcomes.js'
import { sharing } from './queue/sharing.js'
import { stopping } from './queue/stopping.js'

/** A queue on a topic of its own, empty and started, with what the cases need to know and do. */
export interface QueueUnderTest {
  readonly queue: Queue
  /** What `onDead` was told so far, by all instances; the text of a message that is no batch. */
  readonly dead: readonly (Batch | string)[]
  /** Deliveries of a message before it is set aside: what the queue was made with. Keep it small. */
  readonly maxAttempts: number
  /** How long a message may take to arrive, to come again after `retry`, or to come back after a crash. */
  readonly patienceMs: number
  /** How long a consumer may be silent before its messages go to another; 0 where they never do. */
  readonly claimMs: number
  /** How long a new consumer may take until it is handed something, where that is more than moments. */
  readonly joinMs?: number
  /** Another instance on the same topic, started, as another process would have it; where there is none, the same. */
  second(): Promise<Queue>
  /**
   * Feature `crash`: ends an instance as kill -9 would. Its handlers may run on, but nothing they say gets through; calls
   * under way fail, and none stays open.
   */
  crash?(queue: Queue): Promise<void>
  /** Feature `inject`: puts a message on the topic that the library did not write. */
  inject?(text: string): Promise<void>
  /** Stops all instances and removes the topic. */
  close(): Promise<void>
}

/**
 * - `durable`: a message that was accepted outlives the process, and `send` says so.
 * - `crash`: messages of a consumer that vanished come back.
 * - `inject`: others can write to the topic.
 * - `lag`: it is known, not `unknown`.
 * - `age`: so is the age of the oldest message.
 * - `competing`: a consumer that joins gets what others do not hold; where consumers own partitions, it waits for them.
 */
export type QueueFeature = 'durable' | 'crash' | 'inject' | 'lag' | 'age' | 'competing'

export type QueueCase = ConformanceCase<QueueUnderTest>

export type QueueCheck = Check<Bench, QueueFeature>

const CHECKS: readonly QueueCheck[] = [...carrying, ...outcomes, ...stopping, ...sharing]

/**
 * The contract of the {@link Queue} port as cases for any test runner: every adapter of this library runs them, and so
 * should yours.
 *
 * ```ts
 * for (const { name, run } of queueSuite(['durable', 'crash', 'lag']))
 *   test(name, () => run(makeMyQueue))
 * ```
 *
 * @param features what the queue promises beyond the port; cases that need another are left out
 */
export function queueSuite(features: readonly QueueFeature[]): readonly QueueCase[] {
  return casesOf(
    'queueSuite',
    CHECKS,
    features,
    (under: QueueUnderTest) => new Bench(under, features),
  )
}
