import * as check from '../../core/check.js'
import type { FailedMessage, LeasedMessage, OutboxMessage } from '../../core/outbox.js'
import type { NewMessage } from './add.js'
import { OUR_NUMBERS, OUR_TOPICS } from './tables.js'

/** Its number is in an index of MySQL, its payload in a TEXT of 65,535 bytes. */
const BIZ_NO = /^[!-~]{1,128}$/
const MAX_PAYLOAD_BYTES = 60_000
/** The audit row of an act names all it put back, and a TEXT holds about so many. */
export const MAX_PUT_BACK = 400
const MAX_LEASE_MS = 3_600_000

function bizNo(value: unknown): string {
  if (typeof value === 'string' && BIZ_NO.test(value)) return value
  return check.fail('BAD_INPUT', 'bizNo', 'a string of 1 to 128 characters from ! to ~', value)
}

/** A number or topic of the library's own would be taken for its own message, or keep it from being written. */
function notOurs(value: string, name: string, beginning: string): string {
  if (value.startsWith(beginning))
    check.fail('BAD_INPUT', name, `one that does not begin with ${beginning}`, value)
  return value
}

export function newMessage(value: OutboxMessage): NewMessage {
  check.object(value, 'message')
  return {
    bizNo: notOurs(bizNo(value.bizNo), 'bizNo', OUR_NUMBERS),
    topic: notOurs(check.id(value.topic, 'topic'), 'topic', OUR_TOPICS),
    payload: check.jsonText(value.payload, 'payload', MAX_PAYLOAD_BYTES),
  }
}

export function taking(o: {
  readonly topic: string
  readonly limit: number
  readonly leaseMs: number
}) {
  check.object(o, 'options')
  return {
    topic: check.id(o.topic, 'topic'),
    limit: check.int(o.limit, 'limit', 1, 1_000),
    leaseMs: leaseMs(o.leaseMs),
  }
}

export function leaseMs(value: number): number {
  return check.int(value, 'leaseMs', 1, MAX_LEASE_MS)
}

export function leased(values: readonly LeasedMessage[]): readonly LeasedMessage[] {
  check.array(values, 'messages')
  return Array.from(values, (value) => leasedMessage(value as LeasedMessage))
}

export function failed(values: readonly FailedMessage[]): readonly FailedMessage[] {
  check.array(values, 'failed')
  return Array.from(values, (value) => {
    check.object(value, 'failed')
    const { message, error } = value
    if (typeof error !== 'string') check.fail('BAD_INPUT', 'error', 'a string', error)
    return { message: leasedMessage(message), error }
  })
}

function leasedMessage(value: LeasedMessage): LeasedMessage {
  check.object(value, 'message')
  bizNo(value.bizNo)
  check.id(value.lease, 'lease')
  return value
}

export function bizNos(values: readonly string[]): readonly string[] {
  if (!Array.isArray(values) || values.length > MAX_PUT_BACK)
    return check.fail('BAD_INPUT', 'bizNos', `an array of at most ${MAX_PUT_BACK}`, values)
  return [...new Set(Array.from(values, bizNo))]
}
