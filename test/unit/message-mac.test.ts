import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { type Batch, type Json, parseBatch, type Reservation } from 'flash-sale-kit'
import { describe, expect, it, test } from 'vitest'
import { MessageMacs } from '../../src/queue/message-mac.js'
import { batchOf } from '../suites/redis-streams.js'

const PAGE = readFileSync(new URL('../../docs/message.md', import.meta.url), 'utf8')
const block = (name: string) => new RegExp(`\`\`\`${name}\n(.*?)\`\`\``, 's').exec(PAGE)?.[1] ?? ''
const secret = Buffer.from(Array.from({ length: 32 }, (_, i) => i))
const key = { kid: '2026-11', secret }
const macs = new MessageMacs([key])

describe('docs/message.md', () => {
  const text = block('json message')

  it('shows a message that the library reads and trusts', () => {
    expect(macs.fault(parseBatch(text))).toBeNull()
    expect(macs.sign(parseBatch(text)).mac).toBe(JSON.parse(text).mac)
  })

  it('shows the text under the MAC', () => {
    const lines = block('text').replaceAll('\n', '')
    const digest = createHmac('sha256', secret).update(lines).digest('base64url')
    expect(JSON.parse(text).mac).toBe(`1.2026-11.${digest}`)
  })

  it('describes the message as parseBatch reads it', () => {
    const { $defs, properties } = JSON.parse(block('json schema'))
    const message = JSON.parse(text)
    const id = new RegExp($defs.id.pattern)
    const keyId = new RegExp($defs.keyId.pattern)
    for (let code = 0; code < 300; code++) {
      const char = String.fromCharCode(code)
      const batch = { ...message, batchId: char }
      expect(reads(batch), `batchId ${code}`).toBe(id.test(char))
      const of = (skuId: string) => ({
        ...message,
        skuId,
        reservations: [{ ...message.reservations[0], skuId }],
      })
      expect(reads(of(char)), `skuId ${code}`).toBe(keyId.test(char))
    }
    expect(new RegExp(properties.mac.pattern).test(message.mac)).toBe(true)
    const [first] = message.reservations
    const without = (name: string) => ({ ...first, [name]: undefined })
    for (const name of Object.keys($defs.reservation.properties)) {
      const inBatch = { ...message, reservations: [without(name)], [name]: first[name] }
      const nowhere = { ...inBatch, [name]: undefined }
      const required = $defs.reservation.required.includes(name)
      expect(reads(inBatch), name).toBe(!required)
      if (name !== 'payload') expect(reads(nowhere), name).toBe(false)
    }
    for (const [name, { minimum, maximum }] of Object.entries<{
      minimum?: number
      maximum?: number
    }>($defs.reservation.properties))
      for (const bound of [minimum === undefined ? undefined : minimum - 1, maximum && maximum + 1])
        if (bound !== undefined)
          expect(
            reads({ ...message, reservations: [{ ...message.reservations[0], [name]: bound }] }),
          ).toBe(false)
  })
})

function reads(message: unknown): boolean {
  try {
    parseBatch(JSON.stringify(message))
    return true
  } catch {
    return false
  }
}

/** One change of everything that a forger could want. */
const CHANGES: readonly [string, (batch: Batch) => unknown][] = [
  ['the batch id', (b) => ({ ...b, batchId: 'b2' })],
  ['the SKU', (b) => ({ ...b, skuId: 's2' })],
  ['the activity', (b) => ({ ...b, activityId: 'a2' })],
  ['one reservation less', (b) => ({ ...b, reservations: b.reservations.slice(1) })],
  ['one twice', (b) => ({ ...b, reservations: [...b.reservations, b.reservations[0]] })],
  ['their order', (b) => ({ ...b, reservations: [...b.reservations].reverse() })],
  ...(
    [
      ['orderNo', 'o9'],
      ['userId', 'u9'],
      ['quantity', 2],
      ['bucket', 1],
      ['version', 'v2'],
      ['reservedAt', 1_790_000_000_001],
      ['activityId', 'a2'],
      ['skuId', 's2'],
      ['payload', null],
      ['payload', '-'],
      ['payload', { a: 1 }],
    ] as [keyof Reservation, Json][]
  ).map(([name, value]): [string, (batch: Batch) => unknown] => [
    `${name} ${JSON.stringify(value)}`,
    (b) => ({
      ...b,
      reservations: [{ ...b.reservations[0], [name]: value }, ...b.reservations.slice(1)],
    }),
  ]),
]

describe('a MAC', () => {
  const signed = macs.sign(batchOf(2))

  it('is of a batch whole', () => {
    expect(macs.fault(signed)).toBeNull()
    expect(macs.fault(parseBatch(JSON.stringify(signed)))).toBeNull()
  })

  it.each(CHANGES)('tells a change of %s', (_, change) => {
    expect(macs.fault(change(signed) as Batch)).toBe('wrong')
  })

  it('tells where one field ends and the next begins', () => {
    const [first] = signed.reservations
    const moved = (orderNo: string, userId: string) =>
      macs.sign({ ...signed, reservations: [{ ...(first as Reservation), orderNo, userId }] }).mac
    expect(moved('ab', 'c')).not.toBe(moved('a', 'bc'))
    expect(moved('1:a', 'b')).not.toBe(moved('1', 'a1:b'))
  })

  it('tells any flipped character of its own', () => {
    const { mac = '' } = signed
    for (let i = 0; i < mac.length; i++) {
      const other = mac[i] === 'A' ? 'B' : 'A'
      const changed = mac.slice(0, i) + other + mac.slice(i + 1)
      expect(macs.fault({ ...signed, mac: changed }), changed).not.toBeNull()
    }
    // The last character holds four bits only: others stand for the same bytes.
    const bytes = Buffer.from(mac.split('.')[2] ?? '', 'base64url')
    const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const twins = [...digits].filter((d) =>
      Buffer.from(`${mac.split('.')[2]?.slice(0, -1)}${d}`, 'base64url').equals(bytes),
    )
    expect(twins.length).toBeGreaterThan(1)
    for (const twin of twins)
      if (twin !== mac.at(-1))
        expect(macs.fault({ ...signed, mac: mac.slice(0, -1) + twin })).toBe('wrong')
  })

  it.each([
    [undefined, 'missing'],
    ['', 'malformed'],
    ['1.2026-11.', 'malformed'],
    [`2.2026-11.${'A'.repeat(43)}`, 'malformed'],
    [`1.2026-11.${'A'.repeat(44)}`, 'malformed'],
    [`1.other.${'A'.repeat(43)}`, 'unknown-key'],
    [`1.2026-11.${'A'.repeat(43)}`, 'wrong'],
  ] as const)('%j is %s', (mac, fault) => {
    const { mac: _, ...bare } = signed
    expect(macs.fault(mac === undefined ? bare : { ...bare, mac })).toBe(fault)
  })

  it('is of one key: another secret under the same kid is wrong, and the kid is under the MAC', () => {
    const other = new MessageMacs([{ kid: '2026-11', secret: Buffer.alloc(32, 1) }])
    expect(other.fault(signed)).toBe('wrong')
    const two = new MessageMacs([key, { kid: 'k2', secret }])
    expect(two.fault({ ...signed, mac: signed.mac?.replace('2026-11', 'k2') ?? '' })).toBe('wrong')
  })

  it('is verified by every key, so that keys can be rotated', () => {
    const next = { kid: 'k2', secret: Buffer.alloc(32, 2) }
    const both = new MessageMacs([next, key])
    expect(both.fault(signed)).toBeNull()
    expect(both.sign(signed).mac).toMatch(/^1\.k2\./)
    expect(macs.fault(both.sign(signed))).toBe('unknown-key')
  })

  test('does not depend on how the message was written down', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        fc.pre(safe(value) && Buffer.byteLength(JSON.stringify(value)) <= 1_000)
        const [first] = signed.reservations
        const batch = {
          ...signed,
          reservations: [{ ...(first as Reservation), payload: value as Json }],
        }
        const travelled = JSON.parse(JSON.stringify(shuffled(macs.sign(batch)), null, 2))
        expect(macs.fault(parseBatch(JSON.stringify(travelled)))).toBeNull()
      }),
    )
  })
})

/** Whole numbers beyond 2^53 are no payload. */
function safe(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isInteger(value) || Number.isSafeInteger(value)
  return typeof value !== 'object' || value === null || Object.values(value).every(safe)
}

/** The same value with the keys of all its objects the other way round. */
function shuffled(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shuffled)
  if (typeof value !== 'object' || value === null) return value
  const back = Object.entries(value).map(([k, v]) => [k, shuffled(v)] as const)
  return Object.fromEntries(back.reverse())
}

describe('keys', () => {
  const good = Buffer.alloc(32, 1)
  it.each([
    ['none', undefined],
    ['an empty list', []],
    ['one without anything', [{}]],
    ['an empty kid', [{ kid: '', secret: good }]],
    ['a kid with a dot', [{ kid: 'a.b', secret: good }]],
    ['a long kid', [{ kid: 'x'.repeat(33), secret: good }]],
    ['a secret in a string', [{ kid: 'k', secret: 'x'.repeat(32) }]],
    ['a short secret', [{ kid: 'k', secret: good.subarray(1) }]],
    ['a long secret', [{ kid: 'k', secret: Buffer.alloc(1_025) }]],
    ['one kid twice', [1, 2].map((byte) => ({ kid: 'k', secret: Buffer.alloc(32, byte) }))],
    ['17 of them', Array.from({ length: 17 }, (_, i) => ({ kid: `k${i}`, secret: good }))],
  ])('refuses %s', (_, keys) => {
    expect(() => new MessageMacs(keys as never)).toThrow(
      expect.objectContaining({ code: 'BAD_OPTION' }),
    )
  })

  it('shows no secret in an error, and keeps a copy', () => {
    const shown = 'x'.repeat(40)
    expect(() => new MessageMacs([{ kid: shown, secret: shown }] as never)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('xx') }),
    )
    const mine = Buffer.alloc(32, 5)
    const copied = new MessageMacs([{ kid: 'k', secret: mine }])
    const before = copied.sign(batchOf())
    mine.fill(0)
    expect(copied.fault(before)).toBeNull()
  })
})
