import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Bulkhead } from '../../src/gate/bulkhead.js'

const BUSY = { status: 'busy', cause: 'waiting-room', retryAfterMs: 1_000 }

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  expect(vi.getTimerCount(), 'timers left behind').toBe(0)
  vi.useRealTimers()
})

/** Calls that end when told, in the order they began. */
function calls() {
  const began: string[] = []
  const ends: (() => void)[] = []
  const call = (name: string) => () => {
    began.push(name)
    return new Promise<string>((resolve) => ends.push(() => resolve(name)))
  }
  const end = async () => {
    ends.shift()?.()
    await vi.advanceTimersByTimeAsync(0)
  }
  return { began, call, end }
}

describe('Bulkhead', () => {
  it('F11 lets so many calls at once and refuses the rest without calling', async () => {
    const bulkhead = new Bulkhead({ maxConcurrent: 2 })
    const { began, call, end } = calls()
    const a = bulkhead.run(call('a'))
    const b = bulkhead.run(call('b'))
    expect(await bulkhead.run(call('c'))).toEqual(BUSY)
    expect(began).toEqual(['a', 'b'])
    await end()
    expect(await a).toBe('a')
    void bulkhead.run(call('d'))
    expect(began).toEqual(['a', 'b', 'd'])
    await end()
    await end()
    expect(await b).toBe('b')
    expect(bulkhead.load).toEqual({ working: 0, waiting: 0 })
  })

  it('F11 so many may wait, first come first served, and nobody overtakes', async () => {
    const bulkhead = new Bulkhead({ maxConcurrent: 1, maxWaiting: 2 })
    const { began, call, end } = calls()
    const all = ['a', 'b', 'c', 'd'].map((name) => bulkhead.run(call(name)))
    expect(await all[3]).toEqual(BUSY)
    expect(bulkhead.load).toEqual({ working: 1, waiting: 2 })
    await end()
    expect(began).toEqual(['a', 'b'])
    const ended = end()
    const late = bulkhead.run(call('late'))
    await ended
    expect(began).toEqual(['a', 'b', 'c'])
    await end()
    await end()
    expect(began).toEqual(['a', 'b', 'c', 'late'])
    expect(await Promise.all([...all.slice(0, 3), late])).toEqual(['a', 'b', 'c', 'late'])
    expect(bulkhead.load).toEqual({ working: 0, waiting: 0 })
  })

  it('F11 nobody waits longer than allowed, and his place is not kept', async () => {
    const bulkhead = new Bulkhead({ maxConcurrent: 1, maxWaiting: 1, maxWaitMs: 50 })
    const { began, call, end } = calls()
    void bulkhead.run(call('a'))
    const waits = bulkhead.run(call('b'))
    await vi.advanceTimersByTimeAsync(50)
    expect(await waits).toEqual(BUSY)
    await end()
    expect(bulkhead.load).toEqual({ working: 0, waiting: 0 })
    void bulkhead.run(call('c'))
    expect(began).toEqual(['a', 'c'])
    await end()
  })

  it('F11 an abort ends the wait, never a call begun', async () => {
    const bulkhead = new Bulkhead({ maxConcurrent: 1, maxWaiting: 1 })
    const { began, call, end } = calls()
    const abort = new AbortController()
    const begun = bulkhead.run(call('a'), abort.signal)
    const waits = bulkhead.run(call('b'), abort.signal)
    abort.abort(new Error('gone'))
    await expect(waits).rejects.toThrow('gone')
    await expect(bulkhead.run(call('c'), abort.signal)).rejects.toThrow('gone')
    await end()
    expect(await begun).toBe('a')
    expect(began).toEqual(['a'])
    expect(bulkhead.load).toEqual({ working: 0, waiting: 0 })
  })

  it('F11 a call that throws gives its place back', async () => {
    const bulkhead = new Bulkhead({ maxConcurrent: 1 })
    const fails = async () => {
      throw new Error('away')
    }
    const throws = () => {
      throw new Error('at once')
    }
    for (let i = 0; i < 3; i++) {
      await expect(bulkhead.run(fails)).rejects.toThrow('away')
      await expect(bulkhead.run(throws)).rejects.toThrow('at once')
    }
    expect(bulkhead.load).toEqual({ working: 0, waiting: 0 })
  })

  it.each([
    [{}, 'option maxConcurrent must be a whole number from 1 to 100000, got undefined'],
    [{ maxConcurrent: 0 }, 'option maxConcurrent'],
    [{ maxConcurrent: Number.POSITIVE_INFINITY }, 'option maxConcurrent'],
    [{ maxConcurrent: 1, maxWaiting: -1 }, 'option maxWaiting'],
    [{ maxConcurrent: 1, maxWaitMs: 0 }, 'option maxWaitMs'],
  ] as const)('F11 refuses the options %j', (o, message) => {
    expect(() => new Bulkhead(o as never)).toThrowError(message)
  })
})
