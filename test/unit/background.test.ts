import { getEventListeners } from 'node:events'
import { describe, expect, it, vi } from 'vitest'
import { follow, within } from '../../src/core/background.js'

/** Keeps the event loop busy, as a machine with other work does. */
function stall(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

describe('within', () => {
  it('answers as the work does, or says that it is late', async () => {
    expect(await within(Promise.resolve('done'), 1_000, () => 'late')).toBe('done')
    expect(await within(new Promise(() => {}), 1, () => 'late')).toBe('late')
    const refused = within(Promise.reject(new Error('no')), 1_000, () => 'late')
    await expect(refused).rejects.toThrow('no')
  })

  it('gives up nothing that has come, also when both are due in the same turn of the loop', async () => {
    // What `late` does (give a connection back, cut it) must not happen to work that somebody now goes on with.
    const late = vi.fn(() => 'late')
    let answer: (text: string) => void = () => {}
    const work = new Promise<string>((resolve) => {
      answer = resolve
    })
    const outcome = within(work, 5, late)
    setTimeout(() => answer('done'), 5)
    stall(30)
    expect(await outcome).toBe('done')
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(late).not.toHaveBeenCalled()
  })
})

describe('follow', () => {
  it('aborts with any of the signals, for its reason, also with one that had aborted before', () => {
    const [a, b] = [new AbortController(), new AbortController()]
    const abort = new AbortController()
    follow(abort, a.signal, undefined, b.signal)
    expect(abort.signal.aborted).toBe(false)
    b.abort('enough')
    expect([abort.signal.aborted, abort.signal.reason]).toEqual([true, 'enough'])
    const late = new AbortController()
    follow(late, b.signal)
    expect(late.signal.reason).toBe('enough')
  })

  it('leaves nothing behind with a signal that lives on', () => {
    const long = new AbortController()
    const abort = new AbortController()
    const unfollow = follow(abort, long.signal)
    expect(getEventListeners(long.signal, 'abort')).toHaveLength(1)
    unfollow()
    expect(getEventListeners(long.signal, 'abort')).toEqual([])
    long.abort()
    expect(abort.signal.aborted).toBe(false)
  })
})
