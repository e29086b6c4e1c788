import type { SaleNumbers, SkuRef } from '../core/types.js'
import { skuKeys } from '../redis/keys.js'
import type { ScriptRunner } from '../redis/run-script.js'
import { numbers } from '../redis/scripts.generated.js'
import { warmed } from './warmed.js'

/** @throws FlashSaleError `NOT_WARMED` or `CORRUPT` */
export async function saleNumbers(
  runner: ScriptRunner,
  { activityId, skuId }: SkuRef,
): Promise<SaleNumbers> {
  const reply = warmed(await runner.run(numbers, skuKeys(activityId, skuId), {}), activityId)
  const [total, available, frozen, sold, pending, over, waiting, owed] = reply
    .slice(1, 9)
    .map(Number) as [number, number, number, number, number, number, number, number]
  return {
    ...{ total, available, frozen, sold, pending, over, waiting, owed },
    state: reply[9] === 'open' ? 'open' : 'stopped',
    version: String(reply[10]),
  }
}
