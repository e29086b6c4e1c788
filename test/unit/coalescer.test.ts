import { afterEach, describe, expect, it, vi } from 'vitest'
import { Coalescer, type CoalescerOptions } from '../../src/core/coalescer.js'

interface Call {
  readonly key: string
  readonly n: number
}
type Settle = {
  calls: readonly Call[]
  resolve: (answers: unknown) => void
  reject: (e: Error) => void
}

const tick = () => new Promise((resolve) => setImmediate(resolve))
const call = (key: string, n = 0): Call => ({ key, n })

function coalescer(o: Partial<CoalescerOptions<Call, string>> = {}) {
  const runs: Settle[] = []
  const c = new Coalescer<Call, string>({
    keyOf: ({ key }) => key,
    equal: (a, b) => a.n === b.n,
    bytesOf: () => 1,
    run: (calls) =>
      new Promise((resolve, reject) => runs.push({ calls, resolve: resolve as never, reject })),
    full: () => 'full',
    maxBatch: 4,
    maxBytes: 100,
    maxWaiting: 10,
    maxWaitMs: 1_000,
    ...o,
  })
  const keys = () => runs.map((r) => r.calls.map((x) => `${x.key}${x.n}`).join(' '))
  /** Answers the newest batch, each call by its name. */
  const answer = async () => {
    const { calls, resolve } = runs.at(-1) as Settle
    resolve(calls.map((x) => `answer ${x.key}${x.n}`))
    await tick()
    await tick()
  }
  return { c, runs, keys, answer }
}

afterEach(() => {
  vi.useRealTimers()
})

it('gathers the calls of one turn of the event loop, also those of its promises', async () => {
  const { c, keys, answer } = coalescer()
  const all = [c.submit(call('a')), Promise.resolve().then(() => c.submit(call('b')))]
  await tick()
  expect(keys()).toEqual(['a0 b0'])
  await answer()
  expect(await Promise.all(all)).toEqual(['answer a0', 'answer b0'])
  expect(c.idle).toBe(true)
})

it('closes a batch at its size, and the rest goes in order', async () => {
  const { c, keys, answer } = coalescer()
  const all = 'abcdefghij'.split('').map((key) => c.submit(call(key)))
  await tick()
  for (let i = 0; i < 3; i++) await answer()
  expect(keys()).toEqual(['a0 b0 c0 d0', 'e0 f0 g0 h0', 'i0 j0'])
  expect(await Promise.all(all)).toHaveLength(10)
})

it('closes a batch at its bytes; a call larger than all goes alone', async () => {
  const bytes: Record<string, number> = { a: 60, b: 40, c: 1, d: 500, e: 99 }
  const { c, keys, answer } = coalescer({ bytesOf: ({ key }) => bytes[key] as number })
  const all = 'abcde'.split('').map((key) => c.submit(call(key)))
  await tick()
  for (let i = 0; i < 4; i++) await answer()
  expect(keys()).toEqual(['a0 b0', 'c0', 'd0', 'e0'])
  await Promise.all(all)
})

describe('calls of one key', () => {
  it('are one call when equal, waiting or in flight, and a new one afterwards', async () => {
    const { c, keys, answer } = coalescer()
    const all = [c.submit(call('a')), c.submit(call('a'))]
    await tick()
    all.push(c.submit(call('a')))
    await answer()
    expect(await Promise.all(all)).toEqual(['answer a0', 'answer a0', 'answer a0'])
    void c.submit(call('a'))
    await tick()
    expect(keys()).toEqual(['a0', 'a0'])
    await answer()
  })

  it('never share a batch when unequal, and keep their order among the others', async () => {
    const { c, keys, answer } = coalescer()
    const all = [call('a', 1), call('a', 2), call('b'), call('a', 3), call('c')].map((x) =>
      c.submit(x),
    )
    await tick()
    for (let i = 0; i < 3; i++) await answer()
    expect(keys()).toEqual(['a1 b0 c0', 'a2', 'a3'])
    expect(await Promise.all(all)).toEqual([
      'answer a1',
      'answer a2',
      'answer b0',
      'answer a3',
      'answer c0',
    ])
  })

  it('join the newest only: an older equal one in flight is not theirs', async () => {
    const { c, keys, answer } = coalescer()
    const all = [c.submit(call('a', 1))]
    await tick()
    all.push(c.submit(call('a', 2)), c.submit(call('a', 1)), c.submit(call('a', 1)))
    for (let i = 0; i < 3; i++) await answer()
    expect(keys()).toEqual(['a1', 'a2', 'a1'])
    await Promise.all(all)
  })

  it('wait eight at most: a busy key leaves the room to the others', async () => {
    const { c, keys, answer } = coalescer({ maxWaiting: 20 })
    const mine = Array.from({ length: 30 }, (_, i) => c.submit(call('a', i)))
    const other = c.submit(call('b'))
    await tick()
    expect(keys()).toEqual(['a0 b0'])
    for (let i = 0; i < 8; i++) await answer()
    expect(await other).toBe('answer b0')
    const told = await Promise.all(mine)
    expect(told.filter((t) => t !== 'full')).toEqual(
      [0, 1, 2, 3, 4, 5, 6, 7].map((i) => `answer a${i}`),
    )
    // The key is free again.
    const again = c.submit(call('a', 99))
    await tick()
    await answer()
    expect(await again).toBe('answer a99')
  })
})

describe('the waiting room', () => {
  it('holds maxWaiting calls; equal ones need no place', async () => {
    const { c, answer } = coalescer({ maxWaiting: 2 })
    const all = [c.submit(call('a'))]
    await tick()
    all.push(c.submit(call('b')), c.submit(call('c')), c.submit(call('d')), c.submit(call('c')))
    await answer()
    await answer()
    expect(await Promise.all(all)).toEqual([
      'answer a0',
      'answer b0',
      'answer c0',
      'full',
      'answer c0',
    ])
  })

  it('is left after maxWaitMs, oldest first, whatever the batch in flight does', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const { c, keys, answer } = coalescer({ maxWaitMs: 100 })
    const first = c.submit(call('a'))
    await tick()
    const second = c.submit(call('b'))
    vi.advanceTimersByTime(60)
    const third = c.submit(call('c'))
    vi.advanceTimersByTime(39)
    let told: string | null = null
    void second.then((t) => {
      told = t
    })
    await tick()
    expect(told).toBeNull()
    vi.advanceTimersByTime(2)
    expect(await second).toBe('full')
    await answer()
    expect(await first).toBe('answer a0')
    await tick()
    await answer()
    expect(await third).toBe('answer c0')
    expect(keys()).toEqual(['a0', 'c0'])
    expect(c.idle).toBe(true)
  })

  it('does not keep the process alive', async () => {
    const { c } = coalescer()
    void c.submit(call('a'))
    await tick()
    void c.submit(call('b'))
    const timers = process.getActiveResourcesInfo().filter((r) => r === 'Timeout')
    expect(timers.length).toBeLessThanOrEqual(1) // the test runner's own
  })
})

describe('a batch that fails', () => {
  it('rejects its calls, not the next ones', async () => {
    const { c, runs, answer } = coalescer()
    const bad = [c.submit(call('a')), c.submit(call('b'))].map((p) => p.catch((e) => e.message))
    await tick()
    const next = c.submit(call('c'))
    runs[0]?.reject(new Error('no'))
    await tick()
    await tick()
    await answer()
    expect(await Promise.all([...bad, next])).toEqual(['no', 'no', 'answer c0'])
  })

  it('with too few answers is CORRUPT for all of it', async () => {
    const { c, runs } = coalescer()
    const all = [c.submit(call('a')), c.submit(call('b'))].map((p) => p.catch((e) => e.code))
    await tick()
    runs[0]?.resolve(['only one'])
    expect(await Promise.all(all)).toEqual(['CORRUPT', 'CORRUPT'])
    expect(c.idle).toBe(true)
  })

  it('an answer may be a promise: it is waited for alone, and its rejection is that call’s', async () => {
    const { c, runs } = coalescer()
    const [a, b] = [c.submit(call('a')), c.submit(call('b')).catch((e) => e.message)]
    await tick()
    let late = (_: string) => {}
    runs[0]?.resolve([
      new Promise<string>((r) => {
        late = r
      }),
      Promise.reject(new Error('b’s')),
    ])
    expect(await b).toBe('b’s')
    void c.submit(call('c'))
    await tick()
    expect(runs).toHaveLength(2)
    late('a at last')
    expect(await a).toBe('a at last')
  })
})

describe('an abort', () => {
  it('before the batch leaves ends the wait, and frees the place', async () => {
    const { c, keys } = coalescer({ maxWaiting: 1 })
    const controller = new AbortController()
    const gone = c.submit(call('a'), controller.signal)
    controller.abort(new Error('left'))
    await expect(gone).rejects.toThrow('left')
    void c.submit(call('b'))
    await tick()
    expect(keys()).toEqual(['b0'])
  })

  it('afterwards changes nothing', async () => {
    const { c, answer } = coalescer()
    const controller = new AbortController()
    const sent = c.submit(call('a'), controller.signal)
    await tick()
    controller.abort(new Error('too late'))
    await answer()
    expect(await sent).toBe('answer a0')
  })

  it('of all calls leaves nothing behind', async () => {
    const { c, runs } = coalescer()
    const controller = new AbortController()
    const all = ['a', 'a', 'b'].map((k) =>
      c.submit(call(k), controller.signal).catch((e) => e.message),
    )
    controller.abort(new Error('left'))
    expect(await Promise.all(all)).toEqual(['left', 'left', 'left'])
    await tick()
    expect([runs.length, c.idle]).toEqual([0, true])
  })

  it('leaves no listener on a signal that outlives the call', async () => {
    const { c, answer } = coalescer()
    const { signal } = new AbortController()
    const removed = vi.spyOn(signal, 'removeEventListener')
    const done = c.submit(call('a'), signal)
    await tick()
    await answer()
    await done
    expect(removed).toHaveBeenCalledTimes(1)
  })
})

describe('turns', () => {
  it('are awaited before a batch is formed, so that more gathers meanwhile', async () => {
    let grant = (_: () => void) => {}
    let ended = 0
    const { c, keys, answer } = coalescer({
      turn: () =>
        new Promise((resolve) => {
          grant = resolve
        }),
    })
    const all = [c.submit(call('a'))]
    await tick()
    all.push(c.submit(call('b')))
    await tick()
    expect(keys()).toEqual([])
    grant(() => ended++)
    await tick()
    expect(keys()).toEqual(['a0 b0'])
    await answer()
    await Promise.all(all)
    expect(ended).toBe(0) // run ends it
  })

  it('end by themselves when nobody waits any more', async () => {
    let grant = (_: () => void) => {}
    let ended = 0
    const { c, runs } = coalescer({
      turn: () =>
        new Promise((resolve) => {
          grant = resolve
        }),
    })
    const controller = new AbortController()
    const gone = c.submit(call('a'), controller.signal).catch(() => 'left')
    await tick()
    controller.abort()
    expect(await gone).toBe('left')
    grant(() => ended++)
    await tick()
    expect([ended, runs.length, c.idle]).toEqual([1, 0, true])
    void c.submit(call('b'))
    await tick()
    grant(() => ended++)
    await tick()
    expect(runs).toHaveLength(1)
  })
})
