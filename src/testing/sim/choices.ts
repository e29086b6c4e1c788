import { seededRandom } from '../sandbox-payment-random.js'

/** The choices of each step of a run. */
export type ChoiceList = readonly (readonly number[])[]

/**
 * Where all chance of a run comes from. A run is the list of its choices, step by step: the same list gives the same run,
 * and a shorter one a simpler run, for 0 is always the plainest choice, and a list's end means "0 from here on".
 */
export class Choices {
  readonly made: number[][] = []

  private constructor(
    private readonly more: () => boolean,
    private readonly next: (options: number, first: number) => number,
    /** It follows a list. */
    private readonly again: boolean,
  ) {}

  static ofSeed(seed: number, steps: number): Choices {
    const random = seededRandom(seed)
    let left = steps
    return new Choices(
      () => left-- > 0,
      (options, first) => (random() < first ? 0 : Math.floor(random() * options)),
      false,
    )
  }

  static of(list: ChoiceList): Choices {
    let step = -1
    let at = 0
    return new Choices(
      () => {
        step++
        at = 0
        return step < list.length
      },
      (options) => (list[step]?.[at++] ?? 0) % options,
      true,
    )
  }

  /** Begins the next step; false when there is none. */
  begin(): boolean {
    if (!this.more()) return false
    this.made.push([])
    return true
  }

  /** A number below `options`; `first` is the chance that it is surely 0. */
  pick(options: number, first = 0): number {
    if (options < 1) return 0
    const choice = this.next(options, first)
    this.made.at(-1)?.push(choice)
    return choice
  }

  /**
   * One of `some`, by weight, noted by its place in `all`: so it means the same where other steps are left out. Nothing
   * where it is none of them any more.
   */
  among<T>(some: readonly T[], all: readonly T[]): T | undefined {
    if (some.length === 0) return undefined
    const one = this.again ? all[this.next(all.length, 0)] : some[this.next(some.length, 0)]
    this.made.at(-1)?.push(all.indexOf(one as T))
    return some.includes(one as T) ? one : undefined
  }
}
