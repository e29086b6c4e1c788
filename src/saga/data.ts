import { createHash } from 'node:crypto'
import * as check from '../core/check.js'
import { parseJson } from '../core/json.js'
import { MAX_TEXT_BYTES } from '../core/storable.js'

/** Throws `BAD_INPUT` for what is not a JSON object. */
export function encode(data: unknown, name: string): string {
  check.object(data, name)
  const json = check.jsonText(data, name, MAX_TEXT_BYTES)
  // A Date and its like are objects to JavaScript only.
  if (!json.startsWith('{')) check.fail('BAD_INPUT', name, 'a JSON object', data)
  return json
}

/** Null when it cannot be read. */
export function decode(text: string): object | null {
  const value = parseJson(text)
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null
}

/** The same for equal data of a kind, whatever the order of their fields. */
export function fingerprintOf(kind: string, data: string): string {
  const canonical = JSON.stringify([kind, sorted(JSON.parse(data))])
  return createHash('sha256').update(canonical).digest('base64url')
}

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(sorted)
  const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(fields.map(([name, field]) => [name, sorted(field)]))
}
