import { pause } from '../core/background.js'
import * as check from '../core/check.js'
import type { OrderBook } from '../core/order-book.js'
import type { ActivityControl, ActivityStore, LastAct } from '../core/ports.js'
import type { Queue } from '../core/queue.js'
import type { Fences, RebuildableStock } from '../core/reconcile.js'
import type { Activity, Audit, DbNumbers, SaleNumbers, SaleState } from '../core/types.js'
import { catchUp, sameNumbers } from './rebuild-compare.js'
import { isOwnStop, KEEPER, stopReason } from './rebuild-stop.js'

export interface RebuildParts {
  /** A StockBucket. */
  readonly stock: RebuildableStock
  readonly orders: Pick<OrderBook, 'snapshot' | 'topUps' | 'numbers' | 'prepare'>
  readonly activities: Pick<ActivityStore, 'load'>
  readonly control: ActivityControl
  /** What is waited for before buyers are forgotten who are not in the database yet. */
  readonly queue?: Pick<Queue, 'lag'>
  readonly fences?: Fences
}

export interface RebuildRequest {
  /**
   * How long to wait for the queue to run empty, in ms. It spares buyers a disappointment; nothing depends on it.
   * @defaultValue 5,000
   */
  readonly waitMs?: number
  /** Open the sale again, if it was open, and nobody has acted on it meanwhile. @defaultValue false */
  readonly reopen?: boolean
  /** Ends it between two steps; the sale then stays stopped, and a further rebuild begins anew. */
  readonly signal?: AbortSignal
}

/**
 * - `rebuilt`: Redis says what the database says, and the sale is in `state`. Of `orders` rows that were written,
 *   `adopted` and `returned` had been decided while they were being written.
 * - `differs`: it is rebuilt and stopped, but the numbers of `skuId` do not agree: for a person.
 * - `overtaken`, `lost`, `expired`: as for `StockBucket.rebuild`; the sale is stopped.
 */
export type Rebuilt =
  | {
      readonly status: 'rebuilt'
      readonly state: SaleState
      readonly epoch: number
      readonly orders: number
      readonly adopted: number
      readonly returned: number
    }
  | {
      readonly status: 'differs'
      readonly skuId: string
      readonly redis: SaleNumbers
      readonly database: DbNumbers
    }
  | { readonly status: 'overtaken' | 'lost' | 'expired' }

/**
 * Makes Redis anew from the database after a loss: stops (the durable row first), waits for the queue a bounded time,
 * replaces all keys in one step under a new epoch, compares, and opens again where that is asked for. It may be killed at
 * any step and run again, and two at once do no harm.
 *
 * @throws FlashSaleError `BAD_INPUT` also for an activity that the store does not have, or in strong mode; what the stores
 *   and Redis throw: then the sale is stopped, or as it was
 */
export async function rebuildSale(
  parts: RebuildParts,
  activityId: string,
  audit: Audit,
  o: RebuildRequest = {},
): Promise<Rebuilt> {
  check.object(parts, 'parts')
  const id = check.keyId(activityId, 'activityId')
  const by = check.audit(audit)
  check.object(o, 'options')
  const waitMs = check.option(o.waitMs, 'waitMs', 5_000, 0, 600_000)
  const { signal = new AbortController().signal, reopen = false } = o
  if (typeof reopen !== 'boolean') check.fail('BAD_INPUT', 'reopen', 'true or false', reopen)
  const activity = await parts.activities.load(id)
  if (!activity || activity.mode === 'strong')
    return check.fail(
      'BAD_INPUT',
      'activityId',
      'of an activity in the store with its stock in Redis',
      id,
    )
  const { stock, orders, control, fences } = parts

  const stopped = await stop(control, id, by, reopen)
  const revision = stopped?.revision ?? 0
  await stock.control(id, 'stopped', revision)
  await orders.prepare(activity)
  await drain(parts, activity, waitMs, signal)
  signal.throwIfAborted()
  const { tokenEpoch } = await control.read(id)
  const above = (await fences?.read(id))?.epoch ?? 0
  const made = await stock.rebuild(activity, orders, { tokenEpoch, above, revision, signal })
  if (made.status !== 'rebuilt') return made
  await fences?.raise(id, { epoch: made.epoch, seq: 0 })

  const caught = { adopted: 0, returned: 0 }
  for (const { skuId } of activity.skus) {
    const ref = { activityId: id, skuId }
    const late = await catchUp({ stock, orders }, ref, signal)
    if (!late) return { status: 'lost' }
    caught.adopted += late.adopted
    caught.returned += late.returned
    const { same, redis, database } = await sameNumbers({ stock, orders }, ref, signal)
    if (!same) return { status: 'differs', skuId, redis, database }
  }
  const state = reopen && isOwnStop(stopped) ? await open(parts, id, by, stopped) : 'stopped'
  const { epoch, orders: written } = made
  return { status: 'rebuilt', state, epoch, orders: written, ...caught }
}

/**
 * Stops the durable row unless it is stopped, and says whose stop it now is. What is to be opened again is stopped in the
 * library's name, so that whoever carries on after a crash knows that he may.
 */
async function stop(
  control: ActivityControl,
  id: string,
  by: Audit,
  reopen: boolean,
): Promise<LastAct | null> {
  const reason = stopReason(`is rebuilt, asked by ${by.actor}: ${by.reason}`)
  const audit = !reopen || by.actor === KEEPER ? by : { actor: KEEPER, reason }
  for (;;) {
    const last = await control.lastAct(id)
    if (last?.state !== 'open') return last
    await control.setIf(id, 'stopped', audit, last.revision)
  }
}

/** The durable row first. Somebody who has acted meanwhile has decided otherwise: it stays stopped. */
async function open(
  { control, stock }: RebuildParts,
  id: string,
  by: Audit,
  stopped: LastAct | null,
): Promise<SaleState> {
  const revision = stopped && (await control.setIf(id, 'open', by, stopped.revision))
  if (revision === null) return 'stopped'
  await stock.control(id, 'open', revision)
  return 'open'
}

async function drain(
  { queue, stock }: RebuildParts,
  activity: Activity,
  waitMs: number,
  signal: AbortSignal,
): Promise<void> {
  const end = performance.now() + waitMs
  while (performance.now() < end && !signal.aborted) {
    const lag = queue ? await queue.lag().catch(() => 'unknown' as const) : { messages: 0 }
    const { status, waiting } = await stock.standing(activity)
    const inRedis = status === 'warm' || status === 'rewound' ? waiting : 0
    if (lag !== 'unknown' && lag.messages === 0 && inRedis === 0) return
    await pause(50, signal)
  }
}
