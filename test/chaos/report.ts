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

const ms = (n: number) => `${n.toLocaleString('en')} ms`

function list(counts: Readonly<Record<string, number>>): string {
  const items = Object.entries(counts).map(([name, n]) => `${name} ${n.toLocaleString('en')}`)
  return items.join(', ') || 'none'
}
