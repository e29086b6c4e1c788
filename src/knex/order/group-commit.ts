import { describe } from '../../core/describe.js'
import type { ManualTask } from '../../core/order-book.js'
import type { Reservation } from '../../core/types.js'
import { addManualTask } from '../manual-tasks.js'
import type { Database } from '../sql/database.js'
import { HookFailed } from '../sql/failures.js'
import type { Tx } from '../sql/tx.js'
import { type Decision, decide, type Situation, type Standing } from './decide.js'
import { type OrderHooks, Vetoed, vetoReasons } from './hooks.js'
import { oweReleases } from './releases.js'
import { liveKeyOf, type NewRow, type OnePer, orderInsert, skuKeyOf, statusOf } from './rows.js'
import { readStocks, type StockUpdate, takeUnits } from './stock-rows.js'
import { openActivities } from './stopped.js'
import { traceToOne } from './trace.js'

export interface GroupCommitOptions {
  readonly database: Database
  readonly hooks: OrderHooks
  readonly onePer: OnePer
  readonly stockUpdate: StockUpdate
}

/** `redis`: it holds units for each reservation, so a refusal becomes a CLOSED row. `nobody`: it is only an answer. */
export type UnitsHeldBy = 'redis' | 'nobody'

interface Unit {
  readonly heldBy: UnitsHeldBy
  /** Numbers that get a CLOSED row and no units, with the reason. Grows as the host refuses orders. */
  readonly toClose: Map<string, string>
  /** What the hook threw for the numbers given up. */
  readonly hookErrors: Map<string, unknown>
  readonly signal: AbortSignal | undefined
}

/** After so many rounds of vetoes a batch is halved, so that a host who refuses one by one does not repeat it all. */
const VETO_ROUNDS = 3

/**
 * Many orders in one transaction: look up, insert, the host's part, and the stock row last, because everybody waits
 * for it (holding it through a hook of 20 ms cost 3.5 times the throughput). Each number is decided once, for ever.
 */
export class GroupCommit {
  constructor(private readonly o: GroupCommitOptions) {}

  /** A decision for each number, in order. Numbers must be distinct; throws what {@link Database.write} throws. */
  settle(
    reservations: readonly Reservation[],
    o: {
      readonly heldBy: UnitsHeldBy
      readonly toClose?: ReadonlyMap<string, string>
      readonly signal?: AbortSignal | undefined
    },
  ): Promise<readonly Decision[]> {
    const unit: Unit = {
      heldBy: o.heldBy,
      toClose: new Map(o.toClose),
      hookErrors: new Map(),
      signal: o.signal,
    }
    return traceToOne(
      reservations,
      (some) => this.#settle(some, unit),
      (one, cause) => {
        unit.toClose.set(one.orderNo, 'host-error')
        unit.hookErrors.set(one.orderNo, cause)
        return this.#settle([one], unit)
      },
    )
  }

  async #settle(reservations: readonly Reservation[], unit: Unit): Promise<readonly Decision[]> {
    for (let round = 0; round <= VETO_ROUNDS || reservations.length === 1; round++) {
      try {
        return await this.o.database.write(
          (tx) => this.#transaction(tx, reservations, unit),
          unit.signal,
        )
      } catch (error) {
        if (!(error instanceof Vetoed)) throw error
        for (const [orderNo, reason] of error.reasons) unit.toClose.set(orderNo, reason)
      }
    }
    throw new HookFailed(new Error(`vetoes in more than ${VETO_ROUNDS} rounds`))
  }

  async #transaction(
    tx: Tx,
    reservations: readonly Reservation[],
    unit: Unit,
  ): Promise<readonly Decision[]> {
    const { database, hooks, onePer, stockUpdate } = this.o
    const { tables } = database
    const situation = await this.#look(tx, reservations, unit.heldBy)
    const { now } = situation
    const decisions = decide(reservations, situation, { onePer, toClose: unit.toClose })

    const taken = decisions.filter((d) => d.kind === 'take')
    const closed = closedRows(decisions, unit.heldBy)
    const rows: readonly NewRow[] = [...taken, ...closed]
    if (rows.length > 0) {
      const { columns, values } = orderInsert(rows, now)
      await tx.insert(tables.order, columns, values)
    }
    if (unit.heldBy === 'redis') await oweReleases(tx, tables.message, closed, now)
    for (const task of manualTasks(closed, unit))
      await addManualTask(tx, tables.manualTask, task, now)

    if (taken.length > 0 && hooks.onConfirm) {
      const orders = taken.map((d) => d.order)
      const vetoes = await tx.hook(async (trx) =>
        vetoReasons(await hooks.onConfirm?.(trx, orders), orders),
      )
      if (vetoes.size > 0) throw new Vetoed(vetoes)
    }
    for (const { stock, units, witness } of bySku(taken))
      if (!(await takeUnits(tx, tables, { stock, units, now, how: stockUpdate, witness })))
        tx.conflict(`${units} units of ${stock.skuId} are gone`)
    return decisions
  }

  async #look(
    tx: Tx,
    reservations: readonly Reservation[],
    heldBy: UnitsHeldBy,
  ): Promise<Situation> {
    const { database, onePer, stockUpdate } = this.o
    const { tables, dialect } = database
    const stopped = heldBy === 'nobody' ? await this.#stopped(tx, reservations) : new Set<string>()
    // Once beaten, lock the stock rows before looking: what fits then fits to the end.
    const lock = tx.afterConflict && stockUpdate === 'conditional' ? dialect.forUpdate : ''
    const { now, stocks } = await readStocks(tx, tables.stock, reservations, lock)
    const columns = 'order_no, user_id, live_key, status, reason'
    // Two indexes, one round trip; an OR over both would scan.
    const rows = await tx.allIn(
      `SELECT ${columns} FROM ${tables.order} WHERE order_no IN (??) UNION ALL SELECT ${columns} FROM ${tables.order} WHERE live_key IN (??)`,
      reservations.map((r) => r.orderNo),
      reservations.map((r) => liveKeyOf(r, onePer)),
    )
    const byNumber = new Map<string, Standing>()
    const holders = new Map<string, string>()
    for (const row of rows) {
      const orderNo = row.order_no as string
      byNumber.set(orderNo, {
        orderNo,
        userId: row.user_id as string,
        status: statusOf(row),
        reason: row.reason as string | null,
      })
      if (row.live_key !== null) holders.set(row.live_key as string, orderNo)
    }
    return { now, stocks, byNumber, holders, stopped }
  }

  /** Strong mode has no Redis to enforce a stop, so the durable row is read here. */
  async #stopped(tx: Tx, reservations: readonly Reservation[]): Promise<ReadonlySet<string>> {
    const stopped = new Set(reservations.map((r) => r.activityId))
    for (const id of await openActivities(tx, this.o.database.tables.activity, [...stopped]))
      stopped.delete(id)
    return stopped
  }
}

type Taken = Extract<Decision, { kind: 'take' }>
type ClosedRow = Extract<NewRow, { reason: string }>

function closedRows(decisions: readonly Decision[], heldBy: UnitsHeldBy): readonly ClosedRow[] {
  return decisions.flatMap((d) => {
    if (d.kind === 'close') return [{ order: d.order, reason: d.reason }]
    if (d.kind === 'refuse' && heldBy === 'redis')
      return [{ order: d.order, reason: d.refused.why }]
    return []
  })
}

/** What a person must look at: an order the host's code cannot take, a sale that nobody prepared. */
function manualTasks(closed: readonly ClosedRow[], unit: Unit): readonly ManualTask[] {
  return closed.flatMap(({ order, reason }): readonly ManualTask[] => {
    if (reason === 'host-error') {
      const error = describe(unit.hookErrors.get(order.orderNo))
      return [{ kind: 'host-error', ref: order.orderNo, detail: { ...order, error } }]
    }
    if (reason === 'no-stock-row')
      return [{ kind: 'no-stock-row', ref: skuKeyOf(order), detail: { orderNo: order.orderNo } }]
    return []
  })
}

/** Sorted, so that two transactions over the same SKUs take their rows in the same order. */
function bySku(taken: readonly Taken[]) {
  const sums = new Map<string, { stock: Taken['stock']; units: number; witness: string }>()
  for (const { order, stock } of taken) {
    const key = skuKeyOf(order)
    const sum = sums.get(key)
    if (sum) sum.units += order.quantity
    else sums.set(key, { stock, units: order.quantity, witness: order.orderNo })
  }
  return [...sums.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, sum]) => sum)
}
