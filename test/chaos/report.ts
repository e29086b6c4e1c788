import type { Verdict } from './verdict.js'

/** One run of a scenario. Without a verdict it did not get that far; `breaches` then says why. */
export type Result = {
  readonly scenario: string
  readonly run: number
  readonly seconds: number
} & (Verdict | { readonly breaches: readonly string[] })

/** For reading; the JSON has the same. */
export function described(result: Result): string {
  const { scenario, run, seconds, breaches } = result
  const exact = breaches.length === 0 ? 'exact' : 'BREACH'
  const lines = [`${scenario}, run ${run}: ${exact} (${seconds} s)`]
  for (const breach of breaches) lines.push(`  ! ${breach}`)
  if ('oversold' in result) lines.push(...figures(result).map((line) => `  ${line}`))
  return lines.join('\n')
}

function figures(v: Verdict): string[] {
  const { oversold, lost, doubleCharged, difference, recoveryMs } = v
  return [
    `oversold ${oversold} · lost ${lost} · double charge ${doubleCharged} · difference ${difference}`,
    `broken for ${ms(v.faultMs)}; somebody could buy again ${ms(recoveryMs)} after its end; slowest answer ${ms(v.slowestMs)}`,
    `clicks until then: ${list(v.during)}`,
    `all clicks: ${list(v.answers)}`,
    `orders for ${v.units} units: ${list(v.orders)}`,
    `alerts: ${list(v.alerts)}`,
    ...(Object.keys(v.figures).length > 0 ? [`measured: ${list(v.figures)}`] : []),
  ]
}

/** All runs of each scenario, as a table. */
export function table(results: readonly Result[]): string {
  const names = [...new Set(results.map((r) => r.scenario))]
  const rows = names.map((name) => {
    const runs = results.filter((r) => r.scenario === name)
    const exact = runs.filter((r) => r.breaches.length === 0).length
    const judged = runs.filter((r): r is Extract<Result, Verdict> => 'oversold' in r)
    const spread = (of: (v: Verdict) => number) => {
      const sorted = judged.map(of).sort((a, b) => a - b)
      const seconds = (n = 0) => (n / 1_000).toFixed(1)
      return `${seconds(sorted[Math.floor(sorted.length / 2)])} (${seconds(sorted.at(-1))}) s`
    }
    const figures = (
      [(v) => v.faultMs, (v) => v.recoveryMs, (v) => v.slowestMs] as ((v: Verdict) => number)[]
    ).map(spread)
    return `| \`${name}\` | ${exact} of ${runs.length} | ${figures.join(' | ')} |`
  })
  return [
    '| scenario | exact | broken for | somebody could buy again after | slowest answer |',
    '|---|---|---|---|---|',
    ...rows,
  ].join('\n')
}

const ms = (n: number) => `${n.toLocaleString('en')} ms`

function list(counts: Readonly<Record<string, number>>): string {
  const items = Object.entries(counts).map(([name, n]) => `${name} ${n.toLocaleString('en')}`)
  return items.join(', ') || 'none'
}
