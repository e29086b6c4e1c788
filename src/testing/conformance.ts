import { notInProduction } from './not-in-production.js'

/** One rule of a port, for any test runner. */
export interface ConformanceCase<Under> {
  /** A sentence. */
  readonly name: string
  /**
   * Makes an implementation, tries, closes it. Rejects with an `AssertionError` that says what it did wrong, or with what
   * it threw where it should have answered.
   */
  run(make: () => Promise<Under>): Promise<void>
}

/** A case before it is known which implementation it is for. */
export interface Check<Bench, Feature> {
  readonly name: string
  readonly needs?: readonly Feature[]
  readonly check: (bench: Bench) => Promise<void>
}

/** The cases for an implementation that promises `features`; `open` puts it on the bench. */
export function casesOf<Under, Bench extends { close(): Promise<void> }, Feature>(
  suite: string,
  checks: readonly Check<Bench, Feature>[],
  features: readonly Feature[],
  open: (under: Under) => Bench,
): readonly ConformanceCase<Under>[] {
  const fitting = checks.filter((c) => (c.needs ?? []).every((f) => features.includes(f)))
  return fitting.map(({ name, check }) => ({
    name,
    async run(make) {
      notInProduction(suite)
      const bench = open(await make())
      try {
        await check(bench)
      } finally {
        await bench.close()
      }
    },
  }))
}
