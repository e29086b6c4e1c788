import * as crypto from 'node:crypto'
import { FlashSaleError } from '../core/errors.js'
import type { TokenClaims } from '../core/types.js'
import type { IssueTerms, TokenKind, Verified } from './kind.js'

/** A secret and the name under which tokens say that they were signed with it. */
export interface TokenKey {
  /** 1 to 32 of `A-Z a-z 0-9 _ -`; travels in the token in clear. */
  readonly kid: string
  /** 32 to 1,024 random bytes, e.g. `randomBytes(32)`. Copied; never shown in an error or by `util.inspect`. */
  readonly secret: Uint8Array
}

const KID = /^[\w-]{1,32}$/
/** The digest's own length: RFC 2104 (§3) discourages shorter keys. */
const MIN_SECRET_BYTES = 32
const MAX_SECRET_BYTES = 1024

/** 24 base64url characters of the HMAC are 144 bits; the other 19, which the token does not carry, are its id. */
const SIGNATURE_LENGTH = 24
/** 96 bits: to pass another buyer's token off as his own, a buyer would have to meet all of them. */
const OWNER_LENGTH = 16
/** `1.<kid>.<epoch>.<expiresAt>.<owner>.<signature>`, numbers in base 36: at most 93 characters. */
const TOKEN = /^(1\.([\w-]{1,32})\.([0-9a-z]{1,6})\.([0-9a-z]{8,10})\.([\w-]{16}))\.([\w-]{24})$/

/**
 * Tokens that prove themselves. The owner tag is a keyed hash of activity, user and device, so the token names nobody,
 * and what does not match it was well signed, but for somebody else. Nothing is stored, and equal claims give the same
 * token, so there is nothing a buyer could collect by asking again.
 */
export class SignedTokens implements TokenKind {
  readonly #keys = new Map<string, Derived>()
  readonly #first: Derived

  constructor(keys: readonly TokenKey[]) {
    if (!Array.isArray(keys) || keys.length < 1 || keys.length > 16)
      throw badOption('keys must be an array of 1 to 16 keys')
    for (const [i, key] of keys.entries()) {
      const derived = derive(key, i)
      if (this.#keys.has(derived.kid)) throw badOption(`keys[${i}].kid is used twice`)
      this.#keys.set(derived.kid, derived)
    }
    this.#first = [...this.#keys.values()][0] as Derived
  }

  async issue(claims: TokenClaims, terms: IssueTerms): Promise<string> {
    const key = this.#first
    const epoch = terms.epoch.toString(36)
    const body = `1.${key.kid}.${epoch}.${terms.expiresAt.toString(36)}.${ownerTag(key, claims)}`
    return `${body}.${mac(key.signing, body).slice(0, SIGNATURE_LENGTH)}`
  }

  async verify(token: string, claims: TokenClaims, latest: number): Promise<Verified> {
    const [, body, kid, epoch, expiresAt, owner, signature] = TOKEN.exec(token) ?? []
    const key = kid === undefined ? undefined : this.#keys.get(kid)
    if (!key || !body || !epoch || !expiresAt || !owner || !signature)
      return { status: 'token-invalid' }
    // Compared as text: two base64url texts can stand for the same bytes, and then a flipped bit would go unseen.
    const digest = mac(key.signing, body)
    if (!same(signature, digest.slice(0, SIGNATURE_LENGTH))) return { status: 'token-invalid' }
    if (!same(owner, ownerTag(key, claims))) return { status: 'token-not-yours' }
    if (Number.parseInt(expiresAt, 36) <= latest) return { status: 'token-expired' }
    // The HMAC's second half is as good as a hash of the token: it cannot be told from the first, nor lead to it.
    const tokenId = digest.slice(SIGNATURE_LENGTH)
    return { status: 'valid', proof: { tokenId, issue: Number.parseInt(epoch, 36) } }
  }
}

interface Derived {
  readonly kid: string
  readonly signing: crypto.KeyObject
  /** In base64url, to stand before the text that is hashed. */
  readonly owning: string
}

/** One key for each purpose, so that neither hash, nor a secret shared with other code, can stand in for the other. */
function derive(key: TokenKey, i: number): Derived {
  // No message shows what it got: someone may have put the secret where the kid belongs.
  if (typeof key?.kid !== 'string' || !KID.test(key.kid))
    throw badOption(`keys[${i}].kid must be 1 to 32 of A-Z a-z 0-9 _ -`)
  const { kid, secret } = key
  if (!(secret instanceof Uint8Array)) throw badOption(`keys[${i}].secret must be a Uint8Array`)
  if (secret.length < MIN_SECRET_BYTES || secret.length > MAX_SECRET_BYTES)
    throw badOption(
      `keys[${i}].secret must have ${MIN_SECRET_BYTES} to ${MAX_SECRET_BYTES} bytes, got ${secret.length}`,
    )
  const subkey = (purpose: string) =>
    Buffer.from(crypto.hkdfSync('sha256', secret, '', `flash-sale-kit token 1 ${purpose}`, 32))
  return {
    kid,
    signing: crypto.createSecretKey(subkey('signature')),
    owning: subkey('owner').toString('base64url'),
  }
}

function badOption(message: string): FlashSaleError {
  return new FlashSaleError('BAD_OPTION', `option ${message}`)
}

/**
 * Length prefixes keep ("ab", "c") and ("a", "bc") apart; `-` is no device, which no length can be. A hash with the key in
 * front is enough here, and takes 0.6 µs instead of the 4.4 of an HMAC: it shows less than half of itself, so it cannot
 * be carried on without the key, and the signature covers it.
 */
function ownerTag(key: Derived, { activityId, userId, deviceId }: TokenClaims): string {
  const device = deviceId === undefined ? '-' : `${deviceId.length}:${deviceId}`
  const text = `${key.owning}${activityId.length}:${activityId}${userId.length}:${userId}${device}`
  return sha256(text).slice(0, OWNER_LENGTH)
}

/** In one call where Node has it (20.12). */
const sha256: (text: string) => string =
  typeof crypto.hash === 'function'
    ? (text) => crypto.hash('sha256', text, 'base64url')
    : (text) => crypto.createHash('sha256').update(text).digest('base64url')

function mac(key: crypto.KeyObject, text: string): string {
  return crypto.createHmac('sha256', key).update(text).digest('base64url')
}

function same(a: string, b: string): boolean {
  return crypto.timingSafeEqual(Buffer.from(a, 'latin1'), Buffer.from(b, 'latin1'))
}
