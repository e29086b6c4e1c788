import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { OrderBook, OrderRow } from '../core/order-book.js'
import { standing } from '../core/standing.js'
import type { SkuRef } from '../core/types.js'
import type { RebuildKeys } from '../redis/keys.js'
import type { ScriptReply, ScriptRunner } from '../redis/run-script.js'
import { rebuildStage, rebuildStageTopUps } from '../redis/scripts.generated.js'
import { tombstone } from './reason.js'

/** Orders of one script: under 1 ms of Lua. */
const PAGE = 128
/** What nobody carries on with is gone after this. */
const KEEP_MS = 600_000
const ATTEMPTS = 5

/** What was collected of one SKU. */
export interface Staged {
  readonly total: number
  readonly frozen: number
  readonly sold: number
  readonly orders: number
  /** Orders of which a tombstone was written. */
  readonly closed: number
  readonly stockFields: number
  readonly doneFields: number
}

interface Stage {
  readonly runner: ScriptRunner
  readonly keys: RebuildKeys
  readonly orders: Pick<OrderBook, 'snapshot' | 'topUps'>
  readonly signal: AbortSignal | undefined
}

/** Collects S, the top-ups in it and all orders of one SKU, some at a time. Null when Redis has lost some of it meanwhile. */
export async function stageSku(
  { runner, keys, orders, signal }: Stage,
  ref: SkuRef,
): Promise<Staged | null> {
  // S before the orders: a top-up in between is applied again by its id, and pays what was booked in `over`.
  const topUps = await orders.topUps(ref)
  if (!topUps) check.fail('BAD_INPUT', 'skuId', 'of an SKU with a stock row', ref.skuId)
  const operations = topUps.operations.map((o): readonly [string, string] => [
    check.id(o.operationId, 'operationId'),
    String(check.int(o.units, 'units of a top-up', -check.MAX_UNITS, check.MAX_UNITS)),
  ])
  let stockFields = 0
  for (let i = 0; i === 0 || i < operations.length; i += PAGE) {
    const some = operations.slice(i, i + PAGE)
    const args = { keepMs: KEEP_MS, had: stockFields, count: some.length }
    const more = { args: some.flat() }
    const stage = () => runner.run(rebuildStageTopUps, { stock: keys.stock(ref.skuId) }, args, more)
    const reply = await again(stage)
    if (reply[0] !== 1) return null
    stockFields = Number(reply[1])
  }

  const sums = { frozen: 0, sold: 0, orders: 0, closed: 0, doneFields: 0 }
  const place = { released: keys.released, done: keys.done(ref.skuId) }
  let page: string[] = []
  const flush = async (): Promise<boolean> => {
    signal?.throwIfAborted()
    const args = { keepMs: KEEP_MS, had: sums.doneFields, count: page.length / 4 }
    const more = { args: page }
    const reply = await again(() => runner.run(rebuildStage, place, args, more))
    sums.doneFields = Number(reply[1])
    page = []
    return reply[0] === 1
  }
  for await (const row of orders.snapshot(ref)) {
    const kept = keptOf(row)
    if (kept.state === 'p') sums.sold += row.quantity
    else if (kept.state === 'c') sums.frozen += row.quantity
    else sums.closed++
    sums.orders++
    page.push(...kept.args)
    if (page.length >= 4 * PAGE && !(await flush())) return null
  }
  if (!(await flush())) return null
  const total = check.int(topUps.total, 'total', 0, check.MAX_UNITS)
  return { total, ...sums, stockFields }
}

const STATE = { confirmed: 'c', paid: 'p', closed: 'r' } as const

/** What Redis keeps of an order. The token that was used is not known any more; its buyer is barred by his order. */
function keptOf(row: OrderRow): { readonly state: 'c' | 'p' | 'r'; readonly args: string[] } {
  const orderNo = check.id(row.orderNo, 'orderNo of an order')
  const userId = check.id(row.userId, 'userId of an order')
  const quantity = check.int(row.quantity, 'quantity of an order', 1, 1_000)
  const at = check.instant(row.reservedAt, 'reservedAt of an order')
  const state = STATE[standing(row)]
  const reason = tombstone(row.reason ?? 'closed')
  const record = `${state}|${orderNo}|${quantity}|${at}|`
  return { state, args: [userId, orderNo, record, state === 'r' ? reason : ''] }
}

/** A script that may run twice is simply sent again when no answer came. */
export async function again(run: () => Promise<ScriptReply>): Promise<ScriptReply> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await run()
    } catch (error) {
      const unknown = error instanceof FlashSaleError && error.code === 'OUTCOME_UNKNOWN'
      if (!unknown || attempt === ATTEMPTS) throw error
    }
  }
}
