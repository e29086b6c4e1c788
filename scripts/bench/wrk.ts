import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { start } from '../../test/harness/process.js'

const SCRIPT = fileURLToPath(new URL('./burst.lua', import.meta.url))
const TIME_LIMIT_S = 120

export interface Burst {
  /** Of the serving processes; each has its share of requests and connections. */
  readonly ports: readonly number[]
  readonly path: string
  readonly body: string
  /** A file with one "user token" a line, `connections` more than `requests`; each line is sent once at most. */
  readonly crowd: string
  readonly requests: number
  readonly connections: number
}

export interface BurstFigures {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly slowestMs: number
  readonly statuses: Readonly<Record<string, number>>
}

/**
 * Sends requests through wrk (Debian: apt-get install wrk) as fast as they are answered, over connections that stay open:
 * one wrk of one thread for each serving process. (Behind one port of node:cluster they would not be equal: the primary
 * hands connections over one by one, which takes a busy process seconds and is all that p99 then shows.)
 */
export async function burst(o: Burst): Promise<BurstFigures> {
  const lines = readFileSync(o.crowd, 'utf8').trimEnd().split('\n')
  const shares = o.ports.map((port, i) => {
    const file = `${o.crowd}.${i}`
    writeFileSync(file, `${lines.filter((_, line) => line % o.ports.length === i).join('\n')}\n`)
    return { port, file }
  })
  const answered = await Promise.all(shares.map(({ port, file }) => wrk(o, port, file)))
  const latencies = answered.flatMap((a) => a.latencies).sort((a, b) => a.micros - b.micros)
  const count = latencies.reduce((sum, l) => sum + l.count, 0)
  const percentile = (share: number) => {
    let left = count * share
    for (const l of latencies) {
      left -= l.count
      if (left <= 0) return l.micros / 1_000
    }
    return 0
  }
  const statuses: Record<string, number> = {}
  for (const [status, n] of answered.flatMap((a) => a.statuses))
    statuses[status] = (statuses[status] ?? 0) + n
  return {
    perSecond: o.requests / Math.max(...answered.map((a) => a.seconds)),
    p50Ms: percentile(0.5),
    p99Ms: percentile(0.99),
    slowestMs: (latencies.at(-1)?.micros ?? 0) / 1_000,
    statuses,
  }
}

async function wrk(o: Burst, port: number, file: string) {
  const share = o.ports.length
  const child = await start({
    name: 'wrk',
    command: 'wrk',
    args: [
      ...['-t', '1', '-c', String(o.connections / share), '-d', String(TIME_LIMIT_S)],
      ...['--timeout', '30', '-s', SCRIPT, `http://127.0.0.1:${port}`, '--'],
      ...[file, o.path, o.body, String(o.requests / share)],
    ],
  })
  const [, seconds] = (await child.line(/^seconds/, TIME_LIMIT_S * 1_000)).split(' ')
  await child.kill('SIGINT')
  const output = child.output()
  if (!/^done$/m.test(output) || /^ *Socket errors/m.test(output))
    throw new Error(`wrk could not send all:\n${output.replace(/^latency.*\n/gm, '')}`)
  return {
    seconds: Number(seconds),
    latencies: pairs(output, 'latency').map(([micros, count]) => ({ micros, count })),
    statuses: pairs(output, 'status'),
  }
}

function pairs(output: string, word: string): (readonly [number, number])[] {
  const found = output.matchAll(new RegExp(`^${word} (\\d+) (\\d+)$`, 'gm'))
  return [...found].map(([, a, b]) => [Number(a), Number(b)] as const)
}
