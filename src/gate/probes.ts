import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks'
import * as check from '../core/check.js'
import type { Queue } from '../core/queue.js'
import type { Probe } from './backpressure-gate.js'

type Lag = Pick<Queue, 'lag'>

/** Where a probe closes the gate and where it reopens it, each with a default that says where it comes from. */
export interface Marks {
  readonly high?: number
  readonly low?: number
}

/** The one method used of a knex pool (`knex.client.pool`): calls that wait for a connection. */
export interface PoolLike {
  numPendingAcquires(): number
}

/** Messages of up to 256 orders each: the source's 5,000, if each should hold one. Reopens at half. */
const LAG = { high: 5_000, low: 2_500 }
/** The longest acceptable wait for a result is 2 to 3 s. */
const OLDEST_MS = { high: 3_000, low: 1_000 }
/** More waiters than a pool has connections (10 by default), and the wait is longer than the work. */
const POOL = { high: 10, low: 2 }
/** Every request in this process waits that long before anybody looks at it. */
const LOOP_MS = { high: 100, low: 20 }
/** Consumers restart within seconds; ten without progress are a failure. */
const STALLED_MS = { high: 10_000, low: 2_000 }

/** Messages not yet acknowledged. */
export function queueLag(queue: Lag, marks: Marks = {}): Probe {
  const source = checkLag(queue)
  return {
    name: 'queue-lag',
    ...LAG,
    ...marks,
    async read() {
      const lag = await source.lag()
      return lag === 'unknown' ? lag : lag.messages
    },
  }
}

/** Age of the oldest message that nobody has acknowledged, in ms. */
export function oldestUnconfirmed(queue: Lag, marks: Marks = {}): Probe {
  const source = checkLag(queue)
  return {
    name: 'oldest-unconfirmed',
    ...OLDEST_MS,
    ...marks,
    async read() {
      const lag = await source.lag()
      if (lag === 'unknown') return lag
      if (lag.oldestAgeMs !== null) return Math.max(0, lag.oldestAgeMs) // two clocks may differ
      return lag.messages === 0 ? 0 : 'unknown'
    },
  }
}

/**
 * How long the lag has not shrunk, in ms: the queue holds more than `idle` messages, and no reading was smaller than the
 * one before. Tells consumers that stand still from consumers that have much to do, whatever the numbers are.
 */
export function stalledQueue(
  queue: Lag,
  o: Marks & {
    /** Messages that say nothing. @defaultValue 0 */
    readonly idle?: number
  } = {},
): Probe {
  const source = checkLag(queue)
  const { idle: idleOption, ...marks } = o
  const idle = check.option(idleOption, 'idle', 0, 0, 1_000_000_000)
  let before = 0
  let movedAt = performance.now()
  return {
    name: 'queue-stalled',
    ...STALLED_MS,
    ...marks,
    async read() {
      const lag = await source.lag()
      if (lag === 'unknown') return lag
      const now = performance.now()
      if (lag.messages <= idle || lag.messages < before) movedAt = now
      before = lag.messages
      return now - movedAt
    },
  }
}

/** Calls that wait for a connection of a database pool. */
export function poolWaits(pool: PoolLike, marks: Marks = {}): Probe {
  if (typeof pool?.numPendingAcquires !== 'function')
    check.fail('BAD_OPTION', 'pool', 'one with numPendingAcquires', pool)
  return { name: 'pool-waits', ...POOL, ...marks, read: () => pool.numPendingAcquires() }
}

/** Mean delay of this process' event loop since the last reading, in ms. A single pause of the collector hardly shows. */
export function eventLoopDelay(marks: Marks = {}): Probe {
  const resolution = 10
  let histogram: IntervalHistogram | null = null
  return {
    name: 'event-loop-delay',
    ...LOOP_MS,
    ...marks,
    read() {
      // The first reading begins the measurement. It does not keep the process alive.
      if (!histogram) {
        histogram = monitorEventLoopDelay({ resolution })
        histogram.enable()
      }
      const { mean } = histogram
      histogram.reset()
      // Without a sample it is NaN; a sample of an idle loop is the resolution.
      return Number.isNaN(mean) ? 0 : Math.max(0, mean / 1e6 - resolution)
    },
  }
}

function checkLag(queue: Lag): Lag {
  if (typeof queue?.lag !== 'function')
    check.fail('BAD_OPTION', 'queue', 'a Queue (with lag)', queue)
  return queue
}
