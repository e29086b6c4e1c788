import { randomUUID } from 'node:crypto'
import { FlashSaleError } from '../core/errors.js'
import type { RedisLike } from '../core/ports.js'
import type { TokenClaims } from '../core/types.js'
import { tokenKey, tokenOwnerKey } from '../redis/keys.js'
import { ScriptRunner } from '../redis/run-script.js'
import { issueToken, readToken, revokeToken } from '../redis/scripts.generated.js'
import type { IssueTerms, TokenKind, Verified } from './kind.js'

/** As `randomUUID` writes them: one spelling only, since the token is part of a key. */
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
/** How long Redis keeps a token past its end, so that `expired` can still be told from `revoked`. */
const KEEP_MS = 600_000
/** Each round is lost only to another `issue` for the same buyer that won in between. */
const ROUNDS = 8

/**
 * Opaque tokens (random UUIDs) that Redis remembers: `seckill:token:{activityId}:tokenId` holds whom it is for. A buyer
 * has one live token of an activity, and one can be revoked alone. Costs about 400 bytes of Redis a buyer
 * (`scripts/redis-memory.ts`) and one round trip
 * a verification; signed tokens cost neither.
 */
export class StoredTokens implements TokenKind {
  readonly #scripts: ScriptRunner

  constructor(store: RedisLike, timeoutMs: number) {
    this.#scripts = new ScriptRunner(store, timeoutMs)
  }

  async issue(claims: TokenClaims, terms: IssueTerms): Promise<string> {
    const { activityId, userId } = claims
    const tokenId = randomUUID()
    let heldId = '' // the token the buyer holds, once Redis has named it: scripts get every key they touch
    for (let round = 0; round < ROUNDS; round++) {
      const token = tokenKey(activityId, tokenId)
      const held = heldId === '' ? token : tokenKey(activityId, heldId)
      const [code, id] = await this.#scripts.run(
        issueToken,
        { owner: tokenOwnerKey(activityId, userId), token, held },
        {
          tokenId,
          heldId,
          binding: `${ownerPart(claims)}|${terms.epoch}|${terms.expiresAt}`,
          keepUntil: terms.expiresAt + KEEP_MS,
        },
      )
      if (typeof id !== 'string' || !UUID.test(id)) throw corrupt(activityId)
      if (code === 1) return id
      heldId = id
    }
    throw new FlashSaleError('REDIS_UNAVAILABLE', `no turn to issue a token in ${ROUNDS} rounds`)
  }

  async verify(token: string, claims: TokenClaims, latest: number): Promise<Verified> {
    if (!UUID.test(token)) return { status: 'token-invalid' }
    const binding = await this.#read(claims.activityId, token)
    if (binding === null) return { status: 'token-revoked' }
    const { owner, epoch, expiresAt } = parse(binding, claims.activityId)
    if (owner !== ownerPart(claims)) return { status: 'token-not-yours' }
    if (expiresAt <= latest) return { status: 'token-expired' }
    return { status: 'valid', proof: { tokenId: token, issue: epoch, stored: true } }
  }

  /** False when there was nothing to revoke. */
  async revoke(activityId: string, token: string): Promise<boolean> {
    if (!UUID.test(token)) return false
    const binding = await this.#read(activityId, token)
    if (binding === null) return false
    const [userId = ''] = binding.split('|')
    const keys = {
      token: tokenKey(activityId, token),
      owner: tokenOwnerKey(activityId, userId),
    }
    const [code] = await this.#scripts.run(revokeToken, keys, { tokenId: token })
    return code === 1
  }

  async #read(activityId: string, token: string): Promise<string | null> {
    try {
      const key = tokenKey(activityId, token)
      const [code, binding] = await this.#scripts.run(readToken, { token: key }, {})
      if (code === 0) return null
      if (typeof binding !== 'string') throw corrupt(activityId)
      return binding
    } catch (error) {
      // A read that was not answered has changed nothing.
      if (error instanceof FlashSaleError && error.code === 'OUTCOME_UNKNOWN')
        throw new FlashSaleError('REDIS_UNAVAILABLE', error.message, { cause: error })
      throw error
    }
  }
}

/** `userId|deviceId`; neither contains `|`, and no deviceId is empty, so '' is no device. */
function ownerPart({ userId, deviceId = '' }: TokenClaims): string {
  return `${userId}|${deviceId}`
}

function parse(binding: string, activityId: string) {
  const [, owner, epoch, expiresAt] = /^([^|]+\|[^|]*)\|(\d+)\|(\d+)$/.exec(binding) ?? []
  if (!owner) throw corrupt(activityId)
  return { owner, epoch: Number(epoch), expiresAt: Number(expiresAt) }
}

function corrupt(activityId: string): FlashSaleError {
  return new FlashSaleError('CORRUPT', `a stored token of activity ${activityId} is not readable`)
}
