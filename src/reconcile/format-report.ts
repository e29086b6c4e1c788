import type { Report, Triangle } from './findings.js'

type Row = readonly [label: string, value: (t: Triangle) => number | string]

const ROWS: readonly Row[] = [
  ['physical stock S', (t) => t.physical],
  ['Redis available', (t) => t.redis.available],
  ['Redis frozen', (t) => t.redis.frozen],
  ['Redis sold', (t) => t.redis.sold],
  ['Redis pending', (t) => t.redis.pending],
  ['Redis over', (t) => t.redis.over],
  ['database available', (t) => t.database.available],
  ['orders confirmed', (t) => t.confirmed],
  ['orders paid', (t) => t.paid],
  ['orders closed', (t) => t.closedOrders],
  ['on their way', (t) => t.onTheWay],
  ['difference', (t) => t.difference],
]

/** The triangle as a table, one column an SKU, and the findings below it, by kind and one by one: for a terminal or a log. */
export function formatReport(report: Report): string {
  const label = Math.max(report.activityId.length, ...ROWS.map(([name]) => name.length))
  const columns = report.triangles.map((t) => {
    const cells = [t.skuId, ...ROWS.map(([, value]) => String(value(t)))]
    const width = Math.max(...cells.map((c) => c.length))
    return cells.map((c) => c.padStart(width))
  })
  const names = [report.activityId, ...ROWS.map(([name]) => name)]
  const lines = names.map((name, i) => [name.padEnd(label), ...columns.map((c) => c[i])].join('  '))
  for (const [kind, n] of Object.entries(report.counts)) lines.push(`${kind}: ${n}`)
  for (const f of report.findings) {
    const about = [f.kind, f.skuId, f.orderNo ?? f.subject].filter((word) => word !== null)
    lines.push(`${about.join(' ')} ${f.units} units: ${f.evidence}; repair: ${f.repair}`)
  }
  if (report.truncated) lines.push('there are more: repair these and run again')
  return lines.join('\n')
}
