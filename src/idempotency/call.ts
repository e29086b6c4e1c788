import { createHash } from 'node:crypto'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { Json } from '../core/types.js'
import { MAX_KEY_LENGTH, MAX_RESULT_BYTES } from './schema.js'

/** Checks the arguments of both methods; returns the fingerprint as it is stored, 43 characters whatever its length. */
export function checkCall(key: unknown, fingerprint: unknown, work: unknown): string {
  if (typeof key !== 'string' || !/^[!-~]+$/.test(key) || key.length > MAX_KEY_LENGTH)
    check.fail('BAD_INPUT', 'key', `a string of 1 to ${MAX_KEY_LENGTH} characters from ! to ~`, key)
  if (typeof work !== 'function') check.fail('BAD_INPUT', 'work', 'a function', work)
  const asked = check.text(fingerprint, 'fingerprint', 1_000_000)
  return createHash('sha256').update(asked).digest('base64url')
}

/** JSON in ASCII: no connection or column charset can damage it. */
export function encode(value: Json): string {
  let json: string | undefined
  try {
    json = JSON.stringify(value)
  } catch (cause) {
    throw new FlashSaleError('BAD_INPUT', 'the value of the work must be JSON', { cause })
  }
  if (json === undefined) return check.fail('BAD_INPUT', 'the value of the work', 'JSON', value)
  const ascii = json.replace(
    /[\x7f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  if (ascii.length <= MAX_RESULT_BYTES) return ascii
  throw new FlashSaleError(
    'BAD_INPUT',
    `the value of the work must fit ${MAX_RESULT_BYTES} bytes of ASCII JSON, got ${ascii.length}`,
  )
}

export function decode<T extends Json>(result: string, key: string): T {
  try {
    return JSON.parse(result)
  } catch (cause) {
    throw new FlashSaleError('CORRUPT', `the stored value of ${key} is not JSON`, { cause })
  }
}
