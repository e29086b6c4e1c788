import { setTimeout as sleep } from 'node:timers/promises'
import type { OrderRow } from 'flash-sale-kit'
import type { Asked } from './crowd.js'
import { REF } from './sale.js'
import type { Stage } from './stage.js'

/** What came of a disturbed sale. `breaches` says in words what is wrong; empty when all is as it must be. */
export interface Verdict {
  readonly oversold: number
  readonly lost: number
  readonly doubleCharged: number
  /** Of the triangle, and its findings by kind. */
  readonly difference: number
  readonly findings: Readonly<Record<string, number>>
  /**
   * From the end of the fault until a click that was made after it was admitted; where nobody was, all being sold by then, until
   * everything was decided.
   */
  readonly recoveryMs: number
  readonly faultMs: number
  /** Answers to clicks from the beginning of the fault until somebody could buy again, by status; the slowest answer of all. */
  readonly during: Readonly<Record<string, number>>
  readonly slowestMs: number
  /** All answers to clicks, by status. */
  readonly answers: Readonly<Record<string, number>>
  /** Alerts of all processes, by code. */
  readonly alerts: Readonly<Record<string, number>>
  readonly units: number
  /** Orders by what became of them: `paid`, or why they were closed. */
  readonly orders: Readonly<Record<string, number>>
  /** What the scenario itself measured. */
  readonly figures: Readonly<Record<string, number>>
  readonly breaches: readonly string[]
}

/** A third try of a refund comes after half a minute. */
const AT_REST_MS = 90_000

/** Waits until nothing is under way any more, and counts. */
export async function judge(stage: Stage, o: { readonly dropsAnswers: boolean }): Promise<Verdict> {
  const { sale, crowd, fault } = stage
  const breaches = [...stage.breaches]
  const must = (holds: boolean, otherwise: string) => {
    if (!holds) breaches.push(otherwise)
  }
  await atRest(stage).catch((error: Error) => breaches.push(error.message))
  const restAt = performance.now()

  const rows = new Map<string, OrderRow>()
  for await (const row of sale.orders.snapshot(REF)) rows.set(row.orderNo, row)
  const live = [...rows.values()].filter((row) => row.status !== 'closed')
  const { units } = sale
  const database = await sale.orders.numbers(REF)
  const redis = await sale.stock.numbers(REF)
  const buyers = new Set(live.map((row) => row.userId))
  const left = database?.available ?? 0
  const oversold = Math.max(0, live.length - units) + (live.length - buyers.size)
  must(oversold === 0, `${live.length} live orders of ${buyers.size} buyers for ${units} units`)

  const forgotten = [...crowd.told].filter(([no, user]) => rows.get(no)?.userId !== user)
  const missing = Math.abs(units - left - live.length) + Math.abs(left - redis.available)
  const lost = forgotten.length + missing
  must(forgotten.length === 0, `told and forgotten: ${forgotten.slice(0, 5)}`)
  const numbers = JSON.stringify({ live: live.length, database, redis })
  must(missing === 0, `units do not add up: ${numbers}`)

  const early = [...crowd.promised].filter((no) => !wasConfirmed(rows.get(no)))
  must(early.length === 0, `told success too early: ${early.slice(0, 5)}`)
  must(crowd.undecided.length === 0, `never heard the end: ${crowd.undecided.slice(0, 5)}`)

  const charges = await wrongCharges(stage, rows)
  must(charges.length === 0, charges.slice(0, 5).join('; '))

  const report = await sale.reconciler.inspect(REF.activityId)
  must(report.difference === 0, `the triangle differs by ${report.difference}`)
  for (const { kind, evidence } of report.findings.slice(0, 5)) must(false, `${kind}: ${evidence}`)

  const clicks = crowd.asked.filter((a) => a.what === 'click')
  const unanswered = crowd.asked.filter((a) => a.status === 'no-answer')
  must(o.dropsAnswers || unanswered.length === 0, `${unanswered.length} questions had no answer`)
  const recoveryMs = recovery(clicks, fault?.to ?? 0, Math.min(stage.recoveredAt, restAt))
  const over = fault ? fault.to + recoveryMs : 0
  const within = (a: Asked) => fault !== null && a.at >= fault.from && a.at < over
  const { counts: findings, difference } = report
  return {
    ...{ oversold, lost, doubleCharged: charges.length, difference, findings, recoveryMs },
    faultMs: fault ? Math.round(fault.to - fault.from) : 0,
    during: countBy(clicks.filter(within), nameOf),
    slowestMs: Math.max(0, ...crowd.asked.map((a) => a.tookMs)),
    answers: countBy(clicks, nameOf),
    alerts: alertsOf(stage),
    units,
    figures: stage.figures,
    orders: countBy([...rows.values()], (row) => row.reason ?? row.status),
    breaches,
  }
}

/** Nothing waits in Redis, no unit is on its way back, no order waits for money, no money for its place. */
async function atRest({ sale, channels }: Stage): Promise<void> {
  const { knex, stock } = sale
  const count = async (table: string, column: string, values: readonly (string | number)[]) => {
    const [row] = await knex(table).whereIn(column, values).count({ n: '*' })
    return Number(row?.n)
  }
  const look = async () => {
    const { waiting, owed } = await stock.numbers(REF)
    return {
      ...{ waiting, owed, callbacks: channels.undelivered },
      unpaid: await count('seckill_order', 'status', ['CONFIRMED']),
      releases: await count('local_message', 'status', [0]),
      payments: await count('seckill_payment', 'status', ['CREATED', 'RECEIVED', 'REFUNDING']),
      refunds: await count('seckill_refund', 'state', ['REFUNDING']),
    }
  }
  const end = performance.now() + AT_REST_MS
  for (;;) {
    const left = await look()
    if (Object.values(left).every((n) => n === 0)) return
    if (performance.now() > end) throw new Error(`not at rest: ${JSON.stringify(left)}`)
    // Pauses after calls to a channel that failed grow to minutes: as if they had passed. Leases are shorter.
    const paused = (table: string) => knex(table).where('next_at', '>', Date.now() + 15_000)
    await paused('seckill_payment').where({ status: 'CREATED' }).update({ next_at: 0 })
    await paused('seckill_refund').where({ state: 'REFUNDING' }).update({ next_at: 0 })
    await sleep(500)
  }
}

/** What the channels hold, against the orders: every order paid once or not at all, everything else given back. */
async function wrongCharges(
  { sale, channels }: Stage,
  rows: ReadonlyMap<string, OrderRow>,
): Promise<string[]> {
  const wrong: string[] = []
  const paidBy = new Map<string, number>()
  for (const { channel, tradeNo, amountMinor, refundedMinor } of channels.received()) {
    const kept = amountMinor - refundedMinor
    if (kept === 0) continue
    const payment = await sale.payments.findTrade(channel, tradeNo)
    const order = rows.get(payment?.paidOrderNo ?? '')
    const fits = order?.status === 'paid' && kept === order.amountMinor
    if (!fits) wrong.push(`${kept} kept of ${channel} ${tradeNo}, order ${order?.orderNo}`)
    if (order) paidBy.set(order.orderNo, (paidBy.get(order.orderNo) ?? 0) + 1)
  }
  for (const { orderNo, status } of rows.values()) {
    const times = paidBy.get(orderNo) ?? 0
    if (times > 1) wrong.push(`${orderNo} was paid ${times} times`)
    if (status === 'paid' && times === 0) wrong.push(`${orderNo} is PAID by money that is gone`)
  }
  return wrong
}

/** Closed for reasons that come after the confirmation. */
const AFTERWARDS: ReadonlySet<string | null> = new Set([null, 'unpaid', 'refunded'])
const wasConfirmed = (row?: OrderRow) => row !== undefined && AFTERWARDS.has(row.reason)

function recovery(clicks: readonly Asked[], mendedAt: number, latest: number): number {
  const admitted = clicks.filter((a) => a.at >= mendedAt && a.status === 'queued' && !a.replayed)
  return Math.round(Math.min(latest, ...admitted.map((a) => a.at + a.tookMs)) - mendedAt)
}

const nameOf = ({ http, status }: Asked) => (http === 0 ? status : `${http} ${status}`)

function alertsOf({ shops }: Stage): Readonly<Record<string, number>> {
  const lines = shops.flatMap((s) => s.process.output().match(/^alert [\w-]+/gm) ?? [])
  return countBy(lines, (line) => line.slice(6))
}

function countBy<T>(items: readonly T[], nameOf: (item: T) => string): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const item of items) counts[nameOf(item)] = (counts[nameOf(item)] ?? 0) + 1
  return Object.fromEntries(Object.entries(counts).sort(([, a], [, b]) => b - a))
}
