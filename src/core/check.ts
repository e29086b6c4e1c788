import { type ErrorCode, FlashSaleError } from './errors.js'
import type { Activity, ActivitySku, Audit, Json, Reservation, SkuRef } from './types.js'

/** Ids are 1 to 64 of the characters `!` to `~` without `|`, which separates the fields of a record. */
const ID = /^[!-{}~]{1,64}$/
/** Activity, SKU and token ids become part of Redis keys, where `{}` picks the slot, `:` and `#` separate, `*` is a pattern. */
const KEY_ID = /^[!"$-)+-9;-z~]{1,64}$/
const CURRENCY = /^[A-Z]{3}$/

/** Units of one SKU: every number stays exact in Lua's doubles and prints without an exponent. */
export const MAX_UNITS = 1_000_000_000
/** The source of the bound is the message: 256 candidates of at most 1 KiB fit the 256 KiB of a batch. */
export const MAX_PAYLOAD_BYTES = 1024

export function fail(code: ErrorCode, name: string, wanted: string, got: unknown): never {
  throw new FlashSaleError(code, `${name} must be ${wanted}, got ${show(got)}`)
}

/** A value for an error message: short, and never a throw (a BigInt, a cycle, a 10 kB id). */
export function show(value: unknown): string {
  let text: string
  if (typeof value === 'string') text = JSON.stringify(value)
  else if (typeof value === 'bigint') text = `${value}n`
  else if (typeof value === 'object' && value !== null)
    text = Array.isArray(value) ? 'an array' : 'an object'
  else text = String(value)
  return text.length > 80 ? `${text.slice(0, 80)}… (${text.length} characters)` : text
}

/** A whole number within bounds. Strings, fractions, NaN and BigInts are refused, never converted. */
export function int(
  value: unknown,
  name: string,
  min: number,
  max: number,
  code: ErrorCode = 'BAD_INPUT',
): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max)
    return value + 0 // -0 becomes 0
  return fail(code, name, `a whole number from ${min} to ${max}`, value)
}

/** A constructor's numeric option with its default. */
export function option(
  value: number | undefined,
  name: string,
  byDefault: number,
  min: number,
  max: number,
): number {
  return value === undefined ? byDefault : int(value, `option ${name}`, min, max, 'BAD_OPTION')
}

/** An order number, batch id or operation id. */
export function id(value: unknown, name: string): string {
  if (typeof value === 'string' && ID.test(value)) return value
  return fail('BAD_INPUT', name, 'a string of 1 to 64 characters from ! to ~ without |', value)
}

/** A buyer's id; 64-bit ids may come as BigInt, never as an unsafe number. */
export function userIdOf(value: unknown): string {
  return id(typeof value === 'bigint' ? String(value) : value, 'userId')
}

/** An activity, SKU or token id: part of a Redis key. */
export function keyId(value: unknown, name: string): string {
  if (typeof value === 'string' && KEY_ID.test(value)) return value
  return fail(
    'BAD_INPUT',
    name,
    'a string of 1 to 64 characters from ! to ~ without any of | { } : # *',
    value,
  )
}

export function skuRef(ref: SkuRef): SkuRef {
  object(ref, 'ref')
  return { activityId: keyId(ref.activityId, 'activityId'), skuId: keyId(ref.skuId, 'skuId') }
}

/** An ISO 4217 code. */
export function currency(value: unknown, name: string): string {
  if (typeof value === 'string' && CURRENCY.test(value)) return value
  return fail('BAD_INPUT', name, 'three capital letters', value)
}

export function object(value: unknown, name: string): asserts value is object {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    fail('BAD_INPUT', name, 'an object', value)
}

export function array(value: unknown, name: string): asserts value is readonly unknown[] {
  if (!Array.isArray(value)) fail('BAD_INPUT', name, 'an array', value)
}

export function oneOf<T extends string>(value: unknown, name: string, values: readonly T[]): T {
  if (values.includes(value as T)) return value as T
  return fail('BAD_INPUT', name, `one of ${values.map((v) => `'${v}'`).join(', ')}`, value)
}

/** PostgreSQL stores no NUL, and half a surrogate pair does not survive UTF-8. */
const UNSTORABLE = /\0|\p{Surrogate}/u

/** Free text for a person: 1 to `max` characters. */
export function text(value: unknown, name: string, max: number): string {
  if (
    typeof value === 'string' &&
    value.length >= 1 &&
    value.length <= max &&
    !UNSTORABLE.test(value)
  )
    return value
  return fail('BAD_INPUT', name, `a string of 1 to ${max} characters (no NUL)`, value)
}

/** An instant in epoch milliseconds; a number of seconds is told apart (before 2001 in milliseconds). */
export function instant(value: unknown, name: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 1e12 && value < 1e14)
    return value
  return fail(
    'BAD_INPUT',
    name,
    'an instant in epoch milliseconds (a whole number, 13 or 14 digits)',
    value,
  )
}

/**
 * Serialises a payload once; the text travels unchanged. A whole number beyond 2^53 is refused: it stands for other digits
 * than its sender wrote (a 19-digit id belongs in a string).
 */
export function payloadText(value: unknown): string | undefined {
  return value === undefined ? undefined : jsonText(value, 'payload', MAX_PAYLOAD_BYTES)
}

/** JSON of at most `maxBytes`, with the same care for whole numbers. */
export function jsonText(value: unknown, name: string, maxBytes: number): string {
  let json: string | undefined
  try {
    json = JSON.stringify(value)
  } catch (cause) {
    throw new FlashSaleError('BAD_INPUT', `${name} must be JSON`, { cause })
  }
  if (json === undefined) return fail('BAD_INPUT', name, 'JSON', value)
  if (Buffer.byteLength(json) > maxBytes)
    throw new FlashSaleError(
      'BAD_INPUT',
      `${name} must be at most ${maxBytes} bytes of JSON, got ${Buffer.byteLength(json)}`,
    )
  if (MAYBE_UNSAFE.test(json))
    JSON.parse(json, (_key, part) => {
      if (typeof part === 'number' && Number.isInteger(part) && !Number.isSafeInteger(part))
        fail('BAD_INPUT', `a whole number in ${name}`, 'at most 2^53 - 1, or a string', part)
      return part
    })
  return json
}

/** Only a number of 16 digits or with an exponent can be unsafe; most payloads need no second look. */
const MAYBE_UNSAFE = /\d{16}|\de/

export function audit(value: Audit): Audit {
  object(value, 'audit')
  return {
    actor: text(value.actor, 'audit.actor', 64),
    reason: text(value.reason, 'audit.reason', 500),
    ...(value.approvedBy === undefined
      ? {}
      : { approvedBy: text(value.approvedBy, 'audit.approvedBy', 64) }),
  }
}

/** Checks every field of an activity and returns a frozen copy without strangers. */
export function activity(value: Activity): Activity {
  object(value, 'activity')
  const opensAt = instant(value.opensAt, 'opensAt')
  const endsAt = instant(value.endsAt, 'endsAt')
  if (endsAt <= opensAt) fail('BAD_INPUT', 'endsAt', `later than opensAt (${opensAt})`, endsAt)
  if (!Array.isArray(value.skus) || value.skus.length < 1 || value.skus.length > 1000)
    fail('BAD_INPUT', 'skus', 'an array of 1 to 1000 SKUs', value.skus)
  const seen = new Set<string>()
  const skus = Array.from(value.skus, (sku: ActivitySku, i: number) => {
    object(sku, `skus[${i}]`)
    const skuId = keyId(sku.skuId, `skus[${i}].skuId`)
    if (seen.has(skuId)) fail('BAD_INPUT', `skus[${i}].skuId`, 'named once', skuId)
    seen.add(skuId)
    return Object.freeze({
      skuId,
      units: int(sku.units, `skus[${i}].units`, 1, MAX_UNITS),
      priceMinor: int(sku.priceMinor, `skus[${i}].priceMinor`, 0, 1_000_000_000_000),
      currency: currency(sku.currency, `skus[${i}].currency`),
    })
  })
  return Object.freeze({
    activityId: keyId(value.activityId, 'activityId'),
    version: id(value.version, 'version'),
    opensAt,
    endsAt,
    payWithinMs: int(value.payWithinMs, 'payWithinMs', 1_000, 30 * 86_400_000),
    mode: oneOf(value.mode, 'mode', ['queued', 'strong']),
    tokens: oneOf(value.tokens, 'tokens', ['required', 'off']),
    maxPerOrder: int(value.maxPerOrder, 'maxPerOrder', 1, 1000),
    skus: Object.freeze(skus),
    watermark:
      value.watermark === undefined ? 5000 : int(value.watermark, 'watermark', 2, 1_000_000),
  })
}

/** A reservation as it comes from a caller or out of a message: every field checked, strangers dropped. */
export function reservation(value: Reservation): Reservation {
  object(value, 'reservation')
  payloadText(value.payload)
  return {
    orderNo: id(value.orderNo, 'orderNo'),
    activityId: keyId(value.activityId, 'activityId'),
    skuId: keyId(value.skuId, 'skuId'),
    userId: id(value.userId, 'userId'),
    quantity: int(value.quantity, 'quantity', 1, 1000),
    bucket: int(value.bucket, 'bucket', 0, 0),
    version: id(value.version, 'version'),
    reservedAt: instant(value.reservedAt, 'reservedAt'),
    ...(value.payload === undefined ? {} : { payload: value.payload as Json }),
  }
}
