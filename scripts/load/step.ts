import type { LayerCounts } from 'flash-sale-kit'
import { rounded } from '../bench/measure.js'

/** What each layer has seen and refused, by its name. */
export type Layers = Readonly<Record<string, LayerCounts>>

/** All 0, or the sale was not exact. */
export interface Exactness {
  /** Units sold beyond those there were. */
  readonly oversold: number
  /** Buyers who were told that they have one and have none, or not the one they were told. */
  readonly lost: number
  /** Units that neither were sold nor are there; with a database, what the reconciler found. */
  readonly difference: number
}

export interface Latency {
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly max: number
}

/** One level of concurrency, measured. */
export interface Step {
  /** Callers that wait for an answer at any moment. */
  readonly callers: number
  /** What was compared, where a level compares. */
  readonly way?: string
  readonly perSecond: number
  readonly latencyMs: Latency
  readonly layers: Layers
  readonly exactness: Exactness
}

export interface LevelOptions {
  readonly requests: number
  readonly steps: readonly number[]
  readonly db: 'mariadb' | 'postgres'
  readonly log: (line: string) => void
}

export interface Level {
  readonly steps: readonly Step[]
  /** Medians of what the rounds gave, by name; only where a level compares. */
  readonly ratios?: Readonly<Record<string, number>>
}

export function isExact({ exactness: { oversold, lost, difference } }: Step): boolean {
  return oversold === 0 && lost === 0 && difference === 0
}

export function latencyOf(waits: readonly number[]): Latency {
  const sorted = Float64Array.from(waits).sort()
  const at = (share: number) => rounded(sorted[Math.ceil(share * sorted.length) - 1] ?? 0)
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1) }
}

/** Of several processes together. */
export function merged(all: readonly Layers[]): Layers {
  const sums: Record<string, { seen: number; refused: number; byStatus: Record<string, number> }> =
    {}
  for (const [name, layer] of all.flatMap((layers) => Object.entries(layers))) {
    const sum = sums[name] ?? { seen: 0, refused: 0, byStatus: {} }
    sums[name] = sum
    sum.seen += layer.seen
    sum.refused += layer.refused
    for (const [status, count] of Object.entries(layer.byStatus))
      sum.byStatus[status] = (sum.byStatus[status] ?? 0) + count
  }
  return Object.fromEntries(
    Object.entries(sums).map(([name, s]) => [name, { ...s, rate: s.refused / s.seen }]),
  )
}
