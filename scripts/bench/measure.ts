/** What a bench returns: ratios are what is promised, medians the raw figures behind them (units in the names). */
export interface Measured {
  readonly ratios: Readonly<Record<string, number>>
  readonly medians: Readonly<Record<string, number>>
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle]
  if (upper === undefined) throw new Error('no values, no median')
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2
}

/** Three digits that mean something. */
export function rounded(value: number): number {
  return Number(value.toPrecision(3))
}
