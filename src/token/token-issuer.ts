import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { RedisLike } from '../core/ports.js'
import type { TokenClaims } from '../core/types.js'
import type { IssueTerms, Verified } from './kind.js'
import { SignedTokens, type TokenKey } from './signed.js'
import { StoredTokens } from './stored.js'

interface CommonOptions {
  /**
   * How long past its end a token is still taken, for clocks that run ahead. It opens nothing: whether a unit leaves is
   * decided by the sale's window and Redis' clock, in the deduction.
   * @defaultValue 60,000
   */
  readonly leewayMs?: number
  /** Epoch milliseconds. @defaultValue `Date.now` */
  readonly clock?: () => number
}

export interface SignedTokenOptions extends CommonOptions {
  /** The first signs, all verify. To rotate: put the new key first, drop the old one when the running sales are over. */
  readonly keys: readonly TokenKey[]
  readonly store?: never
}

export interface StoredTokenOptions extends CommonOptions {
  /** The Redis in which deductions happen: they check that the token still exists. */
  readonly store: RedisLike
  /** How long Redis may take to answer. @defaultValue 500 */
  readonly timeoutMs?: number
  readonly keys?: never
}

/** An epoch has at most six digits of base 36 in a token; it is raised by one, by hand. */
const MAX_EPOCH = 1_000_000_000

/**
 * Issues the admission token of a buyer (one for each user, device and activity) and checks it: no token, no deduction.
 *
 * With `keys` tokens are *signed*: at most 93 URL-safe characters, nothing stored, equal claims give the same token. With
 * `store` they are *stored*: opaque UUIDs that can be revoked one by one. Issue a token only after the risk check.
 *
 * That a token buys once is not decided here but by the deduction, in one step with the unit: hand it the proof.
 */
export class TokenIssuer {
  readonly #tokens: SignedTokens | StoredTokens
  readonly #leewayMs: number
  readonly #clock: () => number

  /** @throws FlashSaleError `BAD_OPTION`; no message ever shows a secret */
  constructor(o: SignedTokenOptions | StoredTokenOptions) {
    if (typeof o !== 'object' || o === null || (o.keys === undefined) === (o.store === undefined))
      throw new FlashSaleError('BAD_OPTION', 'give either keys (signed tokens) or store (stored)')
    this.#leewayMs = check.option(o.leewayMs, 'leewayMs', 60_000, 0, 3_600_000)
    this.#clock = o.clock ?? Date.now
    if (typeof this.#clock !== 'function')
      check.fail('BAD_OPTION', 'option clock', 'a function', this.#clock)
    if (o.store === undefined) {
      this.#tokens = new SignedTokens(o.keys)
      return
    }
    if (typeof o.store?.evalsha !== 'function' || typeof o.store.eval !== 'function')
      check.fail('BAD_OPTION', 'option store', 'a Redis client', o.store)
    const timeoutMs = check.option(o.timeoutMs, 'timeoutMs', 500, 1, 60_000)
    this.#tokens = new StoredTokens(o.store, timeoutMs)
  }

  /**
   * The buyer's token. Signed: the same for equal claims and terms. Stored: the one he holds while that is alive and the
   * claims and terms are unchanged, else a new one, which ends the old.
   *
   * @throws FlashSaleError `BAD_INPUT`; stored tokens also `REDIS_REFUSED`, `REDIS_UNAVAILABLE`, and `OUTCOME_UNKNOWN`, after which
   * asking again is safe: it finds the token if it was made
   */
  async issue(claims: TokenClaims, o: IssueTerms): Promise<string> {
    const bound = checkClaims(claims)
    check.object(o, 'options')
    return this.#tokens.issue(bound, {
      expiresAt: check.instant(o.expiresAt, 'expiresAt'),
      epoch: check.int(o.epoch, 'epoch', 1, MAX_EPOCH),
    })
  }

  /**
   * Checks what the buyer presented against what the host's session knows of him. `valid` carries the proof for the
   * deduction, which also refuses revoked epochs and tokens of a sale that is not open. `token-missing`: nothing was
   * presented. `token-invalid`: not made by these keys, or altered. `token-not-yours`: good, for another user, device
   * or activity. `token-expired`: at or past `expiresAt` plus the leeway. `token-revoked` (stored tokens only): Redis does
   * not know it, or no longer.
   *
   * @param token as it came in, of whatever type
   * @throws FlashSaleError `BAD_INPUT` for malformed claims, which are the host's; for the token never
   */
  async verify(token: unknown, claims: TokenClaims): Promise<Verified> {
    const bound = checkClaims(claims)
    if (token === undefined || token === null || token === '') return { status: 'token-missing' }
    if (typeof token !== 'string') return { status: 'token-invalid' }
    return this.#tokens.verify(token, bound, this.#clock() - this.#leewayMs)
  }

  /**
   * Ends one stored token; a unit already taken with it stays taken. Signed tokens are revoked all at once by raising the
   * sale's token epoch. Returns false when there was nothing to revoke.
   *
   * @throws FlashSaleError `BAD_OPTION` when tokens are signed
   */
  async revoke(activityId: string, token: string): Promise<boolean> {
    const id = check.keyId(activityId, 'activityId')
    check.text(token, 'token', 200)
    if (this.#tokens instanceof StoredTokens) return this.#tokens.revoke(id, token)
    throw new FlashSaleError('BAD_OPTION', 'only stored tokens can be revoked one by one')
  }
}

function checkClaims(claims: TokenClaims): TokenClaims {
  check.object(claims, 'claims')
  const activityId = check.keyId(claims.activityId, 'activityId')
  const userId = check.userIdOf(claims.userId)
  if (claims.deviceId === undefined) return { activityId, userId }
  return { activityId, userId, deviceId: check.id(claims.deviceId, 'deviceId') }
}
