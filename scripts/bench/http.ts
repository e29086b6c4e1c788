import { type Contestant, sells, setUp } from './http-stage.js'
import { type Measured, median, rounded } from './measure.js'
import { type BurstFigures, burst } from './wrk.js'

export interface HttpBenchOptions {
  readonly rounds?: number
  readonly requests?: number
  readonly units?: number
  readonly connections?: number
  /** Serving processes of the library and of the bare server; the Express servers are one each. */
  readonly processes?: number
  readonly log?: (line: string) => void
}

type Round = BurstFigures & { readonly lastOrderMs: number }
type Seen = Readonly<Record<Contestant, readonly Round[]>>

const CONTESTANTS = ['bare', 'library', 'express-empty', 'express-example'] as const
const BODY = JSON.stringify({ quantity: 1, payload: { addressId: '20261111' } })

/**
 * A crowd against the library's handler and against servers that do nothing, by turns: each round is one burst of
 * requests from distinct buyers, whose tokens were issued before it began. Redis, MariaDB and wrk share the cores with
 * the servers, as much as each needs. Two serving processes, because that is how many cores this has to run on.
 */
export async function run(o: HttpBenchOptions = {}): Promise<Measured> {
  const { rounds = 5, requests = 50_000, units = 1_000, connections = 200, processes = 2 } = o
  const log = o.log ?? (() => {})
  const stage = await setUp(processes)
  try {
    const seen: Record<Contestant, Round[]> = {
      bare: [],
      library: [],
      'express-empty': [],
      'express-example': [],
    }
    // The first round is for the compilers: a sale does not meet a process that has just started.
    for (let round = 0; round <= rounds; round++)
      for (const who of CONTESTANTS) {
        const activityId = `r${round}-${who}`
        // Express is slower; a shorter burst tells as much.
        const count = who.startsWith('express') ? requests / 2 : requests
        const crowd = await stage.prepare(activityId, who, count + connections, units)
        const path = `/api/seckill/${activityId}/phone/submit`
        const ports = stage.ports[who]
        const figures = await burst({
          ports,
          path,
          body: BODY,
          crowd,
          requests: count,
          connections,
        })
        const lastOrderMs = sells(who) ? await stage.lastOrder(activityId, units) : 0
        log(`${round === 0 ? 'warming up' : `round ${round}`}, ${who}: ${inWords(figures)}`)
        if (round > 0) seen[who].push({ ...figures, lastOrderMs })
      }
    return { ratios: ratiosOf(seen), medians: mediansOf(seen) }
  } finally {
    await stage.tearDown()
  }
}

function inWords({ perSecond, p99Ms, slowestMs, statuses }: BurstFigures): string {
  return `${Math.round(perSecond)}/s, p99 ${p99Ms} ms, slowest ${slowestMs} ms, ${JSON.stringify(statuses)}`
}

/** Each round is compared with its neighbour of the same round: both had the same weather. */
function ratiosOf(seen: Seen): Record<string, number> {
  const paired = (a: Contestant, b: Contestant, of: (round: Round) => number) =>
    median(seen[a].map((round, i) => of(round) / of(seen[b][i] as Round)))
  const later = seen.library.map((r, i) => r.slowestMs - (seen.bare[i] as Round).slowestMs)
  const ratios = {
    'library/bare requests a second (at least 0.4)': paired('library', 'bare', (r) => r.perSecond),
    'library/bare p99 (at most 5)': paired('library', 'bare', (r) => r.p99Ms),
    'library slowest answer after bare slowest, ms (at most 1000)': Math.max(...later),
    'last order in the database after the burst, ms (at most 2000)': Math.max(
      ...seen.library.map((r) => r.lastOrderMs),
    ),
    'express example/empty requests a second (at least 0.7)': paired(
      'express-example',
      'express-empty',
      (r) => r.perSecond,
    ),
  }
  return Object.fromEntries(Object.entries(ratios).map(([name, v]) => [name, rounded(v)]))
}

function mediansOf(seen: Seen): Record<string, number> {
  const medians: Record<string, number> = {}
  for (const who of CONTESTANTS)
    for (const figure of ['perSecond', 'p50Ms', 'p99Ms', 'slowestMs'] as const)
      medians[`${who} ${figure}`] = rounded(median(seen[who].map((r) => r[figure])))
  return medians
}
