import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { holding } from '../../src/saga/holding.js'

const LEASE_MS = 300
const hold = { sagaId: 's', kind: 'k', fence: 1 }

/** Work that ends when told, under a lease whose renewals answer as given. */
function work(renew: () => Promise<boolean>, o: { limitMs?: number; cut?: AbortSignal } = {}) {
  let signal: AbortSignal | undefined
  let end = (_: string) => {}
  const renewals = vi.fn(renew)
  const settled = holding<string>(
    {
      store: { renew: renewals },
      hold,
      leaseMs: LEASE_MS,
      limitMs: o.limitMs ?? 60_000,
      cut: o.cut ?? new AbortController().signal,
    },
    (given) => {
      signal = given
      return new Promise((resolve) => {
        end = resolve
      })
    },
    () => 'late',
  )
  return { settled, renewals, aborted: () => signal?.aborted, end: (value: string) => end(value) }
}

describe('C09 (e): holding a lease while a step runs', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())
  const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

  test('renews at each third of it, as long as the work takes and no longer', async () => {
    const { settled, renewals, aborted, end } = work(async () => true)
    await pass(10 * LEASE_MS)
    expect(renewals).toHaveBeenCalledTimes(30)
    expect(renewals).toHaveBeenLastCalledWith(hold, LEASE_MS)
    expect(aborted()).toBe(false)
    end('done')
    expect(await settled).toBe('done')
    await pass(10 * LEASE_MS)
    expect(renewals).toHaveBeenCalledTimes(30)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('aborts as soon as another has it', async () => {
    const { settled, aborted, end } = work(async () => false)
    await pass(LEASE_MS / 3)
    expect(aborted()).toBe(true)
    end('done')
    expect(await settled).toBe('done')
  })

  test('the database away, aborts when the lease has run out, and not before', async () => {
    const { settled, aborted, end } = work(() => Promise.reject(new Error('away')))
    await pass(LEASE_MS - 1)
    expect(aborted()).toBe(false)
    await pass(1)
    expect(aborted()).toBe(true)
    end('done')
    await settled
  })

  test('settles only when no renewal is on its way any more', async () => {
    let answer = (_: boolean) => {}
    const { settled, end } = work(() => new Promise((resolve) => (answer = resolve)))
    await pass(LEASE_MS / 3)
    let ended = false
    settled.then(() => (ended = true))
    end('done')
    await pass(1_000)
    expect(ended).toBe(false)
    answer(true)
    await pass(0)
    expect(ended).toBe(true)
  })

  test('aborts and settles as late when the time is over', async () => {
    const { settled, aborted } = work(async () => true, { limitMs: 50 })
    await pass(51)
    expect(await settled).toBe('late')
    expect(aborted()).toBe(true)
  })

  test('aborts with the cut, also one that came before', async () => {
    const cut = new AbortController()
    const first = work(async () => true, { cut: cut.signal })
    expect(first.aborted()).toBe(false)
    cut.abort()
    expect(first.aborted()).toBe(true)
    const second = work(async () => true, { cut: cut.signal })
    expect(second.aborted()).toBe(true)
    for (const { end } of [first, second]) end('done')
    await Promise.all([first.settled, second.settled])
  })
})
