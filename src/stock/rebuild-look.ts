import type { RedisStanding } from '../core/reconcile.js'
import type { Activity } from '../core/types.js'
import { skuKeys, tagKeys } from '../redis/keys.js'
import type { ScriptRunner } from '../redis/run-script.js'
import { rebuildLook } from '../redis/scripts.generated.js'

/** How Redis stands with an activity, by itself: only the caller knows how far it has been seen to be. */
export async function look(runner: ScriptRunner, activity: Activity): Promise<RedisStanding> {
  const { activityId, skus } = activity
  const keys = skus.flatMap(({ skuId }) => {
    const { stock, done } = skuKeys(activityId, skuId)
    return [stock, done]
  })
  const args = { skus: skus.length }
  const reply = await runner.run(rebuildLook, tagKeys(activityId), args, { keys })
  const records = String(reply[6]).split(' ').map(Number)
  return {
    status: reply[0] === 1 ? 'warm' : reply[0] === -8 ? 'corrupt' : 'not-warmed',
    epoch: Number(reply[1]),
    seq: Number(reply[2]),
    state: reply[3] === 'open' ? 'open' : 'stopped',
    version: String(reply[7]),
    waiting: Number(reply[4]),
    eviction: String(reply[5]),
    records: Object.fromEntries(skus.map(({ skuId }, i) => [skuId, records[i] ?? 0])),
  }
}
