import { FlashSaleError } from '../core/errors.js'
import type { ScriptReply } from '../redis/run-script.js'

/** The reply of a script that found its keys. @throws FlashSaleError `NOT_WARMED` or `CORRUPT` */
export function warmed(reply: ScriptReply, activityId: string): ScriptReply {
  if (reply[0] === -1)
    throw new FlashSaleError(
      'NOT_WARMED',
      `the keys of ${activityId} are missing or not of one piece`,
    )
  if (reply[0] === -8)
    throw new FlashSaleError('CORRUPT', `the numbers of ${activityId} do not add up`)
  return reply
}
