import { FlashSaleError } from '../core/errors.js'

/**
 * Replies with which Redis says no before it has run anything of a script. All else (a timeout, a closed socket, a
 * connection that never came up with the command queued) may have run: its outcome is unknown.
 */
const REFUSED = new Set([
  'NOSCRIPT',
  'MOVED',
  'ASK',
  'TRYAGAIN',
  'CROSSSLOT',
  'READONLY',
  'LOADING',
  'CLUSTERDOWN',
  'MASTERDOWN',
  'OOM',
  'NOREPLICAS',
  'MISCONF',
  'BUSY',
  'NOAUTH',
  'NOPERM',
])

/** The first word of an error reply, the one that Redis documents. */
export function redisCode(error: unknown): string | null {
  if (!(error instanceof Error)) return null
  // Inside a script the reply of the failing command follows: "ERR Error running script (…): @user_script:7: READONLY …"
  const inner = /@user_script: ?\d+: (?:-?)([A-Z]{2,})\b/.exec(error.message)
  return (inner ?? /^-?([A-Z]{2,})\b/.exec(error.message))?.[1] ?? null
}

/** Says what an error of the client or the server means for the call: refused, corrupt, or unknown. */
export function redisError(error: unknown, doing: string): FlashSaleError {
  if (error instanceof FlashSaleError) return error
  const code = redisCode(error)
  const why = error instanceof Error ? error.message : String(error)
  if (code && REFUSED.has(code))
    return new FlashSaleError('REDIS_REFUSED', `Redis refused ${doing}: ${why}`, { cause: error })
  // Scripts read before they write, so a key of another type is met before anything is changed.
  if (code === 'WRONGTYPE')
    return new FlashSaleError('CORRUPT', `a key of another type, met by ${doing}: ${why}`, {
      cause: error,
    })
  return new FlashSaleError('OUTCOME_UNKNOWN', `no answer to ${doing}: ${why}`, { cause: error })
}
