import { CONTESTANTS, type Contestant, sells, setUp } from './http-stage.js'
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

interface Round extends BurstFigures {
  /** Time of the serving processes on a core: less moved by what else the machine does than requests a second. */
  readonly cpuMicros: number
  readonly lastOrderMs: number
}
type Seen = Readonly<Record<Contestant, readonly Round[]>>

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
  const measure = async (who: Contestant, round: number): Promise<Round> => {
    const activityId = `r${round}-${who}`
    // Only the two of the main comparison get the whole crowd; half of it tells as much about the others.
    const count = who === 'bare' || who === 'library' ? requests : requests / 2
    const crowd = await stage.prepare(activityId, who, count + connections, units)
    const path = `/api/seckill/${activityId}/phone/submit`
    const ports = stage.ports[who]
    const before = stage.cpuMicros(who)
    const figures = await burst({ ports, path, body: BODY, crowd, requests: count, connections })
    const cpuMicros = (stage.cpuMicros(who) - before) / count
    const lastOrderMs = sells(who) ? await stage.lastOrder(activityId, units) : 0
    return { ...figures, cpuMicros, lastOrderMs }
  }
  try {
    const seen: Record<Contestant, Round[]> = {
      bare: [],
      library: [],
      unmarked: [],
      expressEmpty: [],
      express: [],
    }
    // The first round is for the compilers: a sale does not meet a process that has just started.
    for (let round = 0; round <= rounds; round++)
      for (const who of CONTESTANTS) {
        const figures = await measure(who, round)
        log(`${round === 0 ? 'warming up' : `round ${round}`}, ${who}: ${inWords(figures)}`)
        if (round > 0) seen[who].push(figures)
      }
    return { ratios: ratiosOf(seen), medians: mediansOf(seen) }
  } finally {
    await stage.tearDown()
  }
}

function inWords({ perSecond, cpuMicros, p99Ms, slowestMs, statuses }: Round): string {
  const answers = JSON.stringify(statuses)
  return `${Math.round(perSecond)}/s, ${rounded(cpuMicros)} µs of a core each, p99 ${p99Ms} ms, slowest ${slowestMs} ms, ${answers}`
}

/** Each round is compared with its neighbour of the same round: both had the same weather. */
function ratiosOf(seen: Seen): Record<string, number> {
  const paired = (a: Contestant, b: Contestant, of: (round: Round) => number) =>
    rounded(median(seen[a].map((round, i) => of(round) / of(seen[b][i] as Round))))
  const rate = (r: Round) => r.perSecond
  const { bare, library } = seen
  const later = library.map((r, i) => r.slowestMs - (bare[i] as Round).slowestMs)
  return {
    /** At least 0.4. */
    libraryToBareRequests: paired('library', 'bare', rate),
    /** At most 5. */
    libraryToBareP99: paired('library', 'bare', (r) => r.p99Ms),
    /** Worst of the rounds; at most 1,000. */
    libraryAfterBareSlowestMs: rounded(Math.max(...later)),
    /** Worst of the rounds; at most 2,000. */
    lastOrderAfterBurstMs: rounded(Math.max(...library.map((r) => r.lastOrderMs))),
    /** No bound: the whole way to Redis for every click, also for those whom the mark would turn away. */
    unmarkedToBareRequests: paired('unmarked', 'bare', rate),
    /** At least 0.7. */
    expressToEmptyRequests: paired('express', 'expressEmpty', rate),
  }
}

function mediansOf(seen: Seen): Record<string, number> {
  const medians: Record<string, number> = {}
  for (const who of CONTESTANTS) {
    const note = (name: string, of: (round: Round) => number) => {
      medians[`${who}${name}`] = rounded(median(seen[who].map(of)))
    }
    note('PerSecond', (r) => r.perSecond)
    note('CpuMicros', (r) => r.cpuMicros)
    note('P50Ms', (r) => r.p50Ms)
    note('P99Ms', (r) => r.p99Ms)
    note('SlowestMs', (r) => r.slowestMs)
  }
  return medians
}
