import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Queue } from '../../src/core/queue.js'
import type { Probe } from '../../src/gate/backpressure-gate.js'
import {
  eventLoopDelay,
  oldestUnconfirmed,
  poolWaits,
  queueLag,
  stalledQueue,
} from '../../src/gate/probes.js'

type Lag = Awaited<ReturnType<Queue['lag']>>

const read = async (probe: Probe) => probe.read(AbortSignal.timeout(1_000))
const queueOf = (lag: Lag) => ({ lag: async () => lag })

afterEach(() => {
  vi.useRealTimers()
})

describe('probes', () => {
  it('F7 queueLag reads the messages, with the source’s marks unless told otherwise', async () => {
    const probe = queueLag(queueOf({ messages: 12, oldestAgeMs: 5 }))
    expect(probe).toMatchObject({ name: 'queue-lag', high: 5_000, low: 2_500 })
    expect(await read(probe)).toBe(12)
    expect(await read(queueLag(queueOf('unknown')))).toBe('unknown')
    expect(queueLag(queueOf('unknown'), { high: 40, low: 9 })).toMatchObject({ high: 40, low: 9 })
  })

  it.each([
    [{ messages: 3, oldestAgeMs: 1_234 }, 1_234],
    [{ messages: 3, oldestAgeMs: -20 }, 0],
    [{ messages: 0, oldestAgeMs: null }, 0],
    [{ messages: 3, oldestAgeMs: null }, 'unknown'],
    ['unknown', 'unknown'],
  ] as const)('F7 oldestUnconfirmed takes %j for %s', async (lag, value) => {
    expect(await read(oldestUnconfirmed(queueOf(lag)))).toBe(value)
  })

  it('F7 stalledQueue counts the time without progress, however much there is to do', async () => {
    vi.useFakeTimers()
    let messages = 50_000
    const probe = stalledQueue({ lag: async () => ({ messages, oldestAgeMs: 1 }) })
    const readings: unknown[] = []
    for (const next of [50_000, 50_000, 50_400, 50_399, 50_399, 60_000, 0, 0]) {
      messages = next
      await vi.advanceTimersByTimeAsync(1_000)
      readings.push(await read(probe))
    }
    expect(readings).toEqual([1_000, 2_000, 3_000, 0, 1_000, 2_000, 0, 0])
  })

  it('F7 stalledQueue takes a few messages for nothing if told so, and unknown for unknown', async () => {
    vi.useFakeTimers()
    const probe = stalledQueue(queueOf({ messages: 5, oldestAgeMs: 1 }), { idle: 5 })
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await read(probe)).toBe(0)
    expect(await read(stalledQueue(queueOf('unknown')))).toBe('unknown')
    expect(stalledQueue(queueOf('unknown'), { high: 60_000 })).not.toHaveProperty('idle')
  })

  it('F7 poolWaits asks the pool', async () => {
    expect(await read(poolWaits({ numPendingAcquires: () => 7 }))).toBe(7)
  })

  it('F7 eventLoopDelay sees a loop that is busy, and forgets it', async () => {
    const probe = eventLoopDelay()
    await read(probe)
    for (let i = 0; i < 3; i++) {
      const until = performance.now() + 300
      while (performance.now() < until);
      await pause(0)
    }
    expect(await read(probe)).toBeGreaterThan(150)
    await pause(500)
    expect(await read(probe)).toBeLessThan(100)
  })

  it.each([
    [() => queueLag({} as never), 'queue must be a Queue (with lag), got an object'],
    [() => oldestUnconfirmed(null as never), 'queue must be a Queue'],
    [() => stalledQueue(undefined as never), 'queue must be a Queue'],
    [() => stalledQueue(queueOf('unknown'), { idle: -1 }), 'option idle'],
    [() => poolWaits({} as never), 'pool must be one with numPendingAcquires'],
  ] as const)('F7 refuses what it cannot read: %s', (make, message) => {
    expect(make).toThrowError(message)
  })
})
