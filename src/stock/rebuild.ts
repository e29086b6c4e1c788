import { randomUUID } from 'node:crypto'
import { FlashSaleError } from '../core/errors.js'
import type { OrderBook } from '../core/order-book.js'
import type { Activity, RebuiltStock } from '../core/types.js'
import { rebuildKeys, skuKeys, tagKeys } from '../redis/keys.js'
import type { ScriptRunner } from '../redis/run-script.js'
import { rebuildSwap } from '../redis/scripts.generated.js'
import { look } from './rebuild-look.js'
import { again, type Staged, stageSku } from './rebuild-stage.js'
import { keysExpireAt, saleTerms } from './warm-up.js'

export interface RebuildOptions {
  /** From the durable row, as in warm-up. */
  readonly tokenEpoch: number
  /** The new key epoch will be greater than this: the highest that was ever seen. @defaultValue 0 */
  readonly above?: number
  /** Of the durable row that says the sale is stopped; older acts do not reach the new keys. @defaultValue 0 */
  readonly revision?: number
  /** Aborts between two scripts; what was collected expires by itself. */
  readonly signal?: AbortSignal
}

/**
 * Replaces all keys of an activity by what the database says. A million orders are no matter of one script: they are
 * collected under keys of this rebuild's own, and one script puts them in place. Until then nothing is changed.
 */
export async function rebuild(
  runner: ScriptRunner,
  activity: Activity,
  orders: Pick<OrderBook, 'snapshot' | 'topUps'>,
  o: Required<Omit<RebuildOptions, 'signal'>> & Pick<RebuildOptions, 'signal'>,
): Promise<RebuiltStock> {
  const { activityId } = activity
  if (keysExpireAt(activity) <= Date.now()) return { status: 'expired' }
  const rebuildId = randomUUID()
  const keys = rebuildKeys(activityId, rebuildId)
  const { epoch: seenEpoch } = await look(runner, activity)
  const staged: Staged[] = []
  for (const { skuId } of activity.skus) {
    const stage = { runner, keys, orders, signal: o.signal }
    const sku = await stageSku(stage, { activityId, skuId })
    if (!sku) return { status: 'lost' }
    staged.push(sku)
  }
  o.signal?.throwIfAborted()
  // One field says that the key is there; every closed order has one of its own.
  const tombstones = staged.reduce((sum, s) => sum + s.closed, 1)
  const args = {
    ...saleTerms(activity, o.tokenEpoch),
    ...{ rebuildId, seenEpoch, above: o.above, tombstones, revision: o.revision },
  }
  const more = {
    keys: activity.skus.flatMap(({ skuId }) => {
      const { stock, done } = skuKeys(activityId, skuId)
      return [stock, done, keys.stock(skuId), keys.done(skuId)]
    }),
    args: staged
      .flatMap((s) => [s.total, s.frozen, s.sold, s.stockFields, s.doneFields])
      .map(String),
  }
  const tag = { ...tagKeys(activityId), tombs: keys.released }
  const reply = await again(() => runner.run(rebuildSwap, tag, args, more))
  switch (reply[0]) {
    case 1:
      return {
        status: 'rebuilt',
        epoch: Number(reply[1]),
        orders: staged.reduce((sum, s) => sum + s.orders, 0),
      }
    case 0:
      return { status: 'lost' }
    case -1:
      return { status: 'overtaken' }
    case -2:
      return { status: 'expired' }
    default:
      throw new FlashSaleError('CORRUPT', `the swap of a rebuild answered ${String(reply[0])}`)
  }
}
