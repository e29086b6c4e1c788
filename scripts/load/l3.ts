import { startMariadb, startPostgres } from '../../test/harness/services.js'
import { type Timed, wholeSale } from '../../test/harness/whole-sale.js'
import { progress } from './drive.js'
import {
  type Exactness,
  type Layers,
  type Level,
  type LevelOptions,
  latencyOf,
  merged,
  type Step,
} from './step.js'

const SHOP = new URL('./shop.ts', import.meta.url)

/** Everything: POSTs to two processes of the Express example, orders in the database, reconciled. Every fiftieth may win. */
export async function l3(o: LevelOptions): Promise<Level> {
  const server = o.db === 'mariadb' ? await startMariadb() : await startPostgres()
  const steps: Step[] = []
  try {
    for (const callers of o.steps) {
      steps.push(await once(o, callers, server))
      o.log(`${callers} connections: ${steps.at(-1)?.perSecond}/s`)
    }
    return { steps }
  } finally {
    await server.stop()
  }
}

async function once(
  { db, requests, log }: LevelOptions,
  connections: number,
  server: Awaited<ReturnType<typeof startMariadb>>,
): Promise<Step> {
  const units = Math.ceil(requests / 50)
  const waits: number[] = []
  const queued = new Map<string, string>()
  const tell = progress(log, `${connections} connections`, requests)
  let first = Number.POSITIVE_INFINITY
  let last = 0
  const onAnswer = ({ userId, code, orderNo, ms }: Timed) => {
    last = performance.now()
    first = Math.min(first, last - ms)
    waits.push(ms)
    if (code === 'SECKILL_QUEUED' && orderNo) queued.set(orderNo, userId)
    tell(waits.length)
  }
  const r = await wholeSale({ db, server, requests, units, connections, shop: SHOP, onAnswer })
  const exactness: Exactness = {
    oversold: Math.max(0, r.live.size - units),
    lost: [...queued].filter(([orderNo, userId]) => r.live.get(orderNo) !== userId).length,
    // The whole crowd came, so every unit must be an order, here and in the shop's own table.
    difference:
      r.report.difference + Math.abs(units - r.live.size) + Math.abs(units - r.shopOrders),
  }
  return {
    callers: connections,
    perSecond: Math.round((requests / (last - first)) * 1_000),
    latencyMs: latencyOf(waits),
    layers: merged(r.outputs.map(refusalsIn)),
    exactness,
  }
}

function refusalsIn(output: string): Layers {
  const [, json] = /^refusals (.*)$/m.exec(output) ?? []
  if (json === undefined) throw new Error(`a shop did not say what it refused:\n${output}`)
  return JSON.parse(json) as Layers
}
