import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { Batch, Json, Reservation } from '../core/types.js'

/** A secret and the name under which messages say that they were signed with it. */
export interface MessageKey {
  /** 1 to 32 of `A-Z a-z 0-9 _ -`; travels in the message in clear. */
  readonly kid: string
  /** 32 to 1,024 random bytes, e.g. `randomBytes(32)`, used for nothing else. Copied; never shown in an error. */
  readonly secret: Uint8Array
}

/** Why a message is not to be trusted. */
export type MacFault = 'missing' | 'malformed' | 'unknown-key' | 'wrong'

const KID = /^[\w-]{1,32}$/
/** `1.<kid>.<digest in base64url>` */
const MAC = /^1\.([\w-]{1,32})\.([\w-]{43})$/

/** Signs with the first key and verifies with all: see docs/message.md for the same in another language. */
export class MessageMacs {
  readonly #keys = new Map<string, KeyObject>()
  readonly #first: string

  constructor(keys: readonly MessageKey[]) {
    if (!Array.isArray(keys) || keys.length < 1 || keys.length > 16)
      throw badOption('keys must be an array of 1 to 16 keys')
    for (const [i, key] of keys.entries()) {
      // No message shows what it got: someone may have put the secret where the kid belongs.
      if (typeof key?.kid !== 'string' || !KID.test(key.kid))
        throw badOption(`keys[${i}].kid must be 1 to 32 of A-Z a-z 0-9 _ -`)
      if (!(key.secret instanceof Uint8Array))
        throw badOption(`keys[${i}].secret must be a Uint8Array`)
      // From the digest's own length up: RFC 2104 (§3) discourages shorter keys.
      if (key.secret.length < 32 || key.secret.length > 1024)
        throw badOption(`keys[${i}].secret must have 32 to 1024 bytes, got ${key.secret.length}`)
      if (this.#keys.has(key.kid)) throw badOption(`keys[${i}].kid is used twice`)
      this.#keys.set(key.kid, createSecretKey(key.secret))
    }
    this.#first = (keys[0] as MessageKey).kid
  }

  sign(batch: Batch): Batch {
    return { ...batch, mac: `1.${this.#first}.${this.#digest(this.#first, batch)}` }
  }

  /** Null when the message is what somebody with one of the keys has sent. */
  fault(batch: Batch): MacFault | null {
    if (batch.mac === undefined) return 'missing'
    const [, kid, digest] = MAC.exec(batch.mac) ?? []
    if (!kid || !digest) return 'malformed'
    if (!this.#keys.has(kid)) return 'unknown-key'
    // Compared as text: two base64url texts can stand for the same bytes, and then a flipped bit would go unseen.
    const wanted = Buffer.from(this.#digest(kid, batch), 'latin1')
    return timingSafeEqual(Buffer.from(digest, 'latin1'), wanted) ? null : 'wrong'
  }

  #digest(kid: string, batch: Batch): string {
    const key = this.#keys.get(kid) as KeyObject
    return createHmac('sha256', key).update(canonical(kid, batch)).digest('base64url')
  }
}

/** Every field, in one order, each behind its length in bytes: no two messages give the same text. */
function canonical(kid: string, batch: Batch): string {
  const { batchId, activityId, skuId, reservations } = batch
  const head = ['flash-sale-kit message 1', kid, batchId, activityId, skuId, reservations.length]
  return head.map(field).join('') + reservations.map(canonicalReservation).join('')
}

function canonicalReservation(r: Reservation): string {
  const text = check.payloadText(r.payload)
  const payload = text === undefined ? '-' : field(canonicalJson(JSON.parse(text)))
  return (
    [r.orderNo, r.activityId, r.skuId, r.userId, r.quantity, r.bucket, r.version, r.reservedAt]
      .map(field)
      .join('') + payload
  )
}

function field(value: string | number): string {
  const text = String(value)
  return `${Buffer.byteLength(text)}:${text}`
}

/** RFC 8785: keys sorted by UTF-16 code units, numbers and strings as ECMAScript writes them. */
function canonicalJson(value: Json): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([k, v]) => `${JSON.stringify(k)}:${canonicalJson(v)}`).join(',')}}`
}

function badOption(message: string): FlashSaleError {
  return new FlashSaleError('BAD_OPTION', `option ${message}`)
}
