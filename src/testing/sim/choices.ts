import { seededRandom } from '../sandbox-payment-random.js'

/**
 * Where all chance of a run comes from. A run is the list of choices that it made: the same list gives the same run, and a
 * shorter one a simpler run, for 0 is always the plainest choice and the list's end means "nothing strange any more".
 */
export class Choices {
  readonly made: number[] = []

  private constructor(private readonly next: (options: number, first: number) => number | null) {}

  static ofSeed(seed: number, steps: number): Choices {
    const random = seededRandom(seed)
    let left = steps
    return new Choices((options, first) => {
      if (left-- <= 0) return null
      if (random() < first) return 0
      return Math.floor(random() * options)
    })
  }

  static of(list: readonly number[]): Choices {
    let at = 0
    return new Choices((options) => {
      const choice = list[at++]
      return choice === undefined ? null : choice % options
    })
  }

  get ended(): boolean {
    return this.done
  }

  private done = false

  /** A number below `options`; `first` is the chance that it is surely 0. Always 0 once the list has ended. */
  pick(options: number, first = 0): number {
    if (this.done || options < 1) return 0
    const choice = this.next(options, first)
    if (choice === null) {
      this.done = true
      return 0
    }
    this.made.push(choice)
    return choice
  }
}
