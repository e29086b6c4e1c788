import type { ConformanceCase } from 'flash-sale-kit/testing'
import { expect, test } from 'vitest'

/** A way to be wrong, what is so, and words of the cases that must notice. */
export type Mutant<Wrong> = readonly [string, Wrong, readonly string[]]

/** Each mutant is noticed by the cases it names, and each case notices some mutant. */
export function noticed<Under, Wrong>(
  cases: readonly ConformanceCase<Under>[],
  mutants: readonly Mutant<Wrong>[],
  make: (wrong: Wrong) => () => Promise<Under>,
): void {
  test.each(mutants)('the suite notices %s', async (_, wrong, words) => {
    for (const word of words) {
      const named = cases.filter(({ name }) => name.includes(word))
      expect(named, word).not.toEqual([])
      for (const { name, run } of named) await expect(run(make(wrong)), name).rejects.toThrow()
    }
  })

  test('every case of the suite is seen to fail', () => {
    const words = mutants.flatMap(([, , its]) => its)
    const unseen = cases.filter(({ name }) => !words.some((word) => name.includes(word)))
    expect(unseen.map(({ name }) => name)).toEqual([])
  })
}
