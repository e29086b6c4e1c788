import { describe, expect, it, vi } from 'vitest'
import { within } from '../../src/core/background.js'

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
