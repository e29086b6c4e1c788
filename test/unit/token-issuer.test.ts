import { randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FlashSaleError } from '../../src/core/errors.js'
import type { TokenClaims } from '../../src/core/types.js'
import { TokenIssuer } from '../../src/token/token-issuer.js'

const ENDS_AT = 1_795_000_000_000
const TERMS = { expiresAt: ENDS_AT, epoch: 1 }
const ANN: TokenClaims = { activityId: 'a1', userId: 'ann', deviceId: 'd1' }
const secret = (fill: number) => new Uint8Array(32).fill(fill)
const KEY = { kid: '2026-11', secret: secret(7) }

function issuer(o: { now?: number; leewayMs?: number; keys?: (typeof KEY)[] } = {}) {
  return new TokenIssuer({
    keys: o.keys ?? [KEY],
    clock: () => o.now ?? ENDS_AT - 1000,
    ...(o.leewayMs === undefined ? {} : { leewayMs: o.leewayMs }),
  })
}

async function codeOf(work: () => unknown): Promise<string> {
  try {
    await work()
  } catch (error) {
    if (error instanceof FlashSaleError) return error.code
    throw error
  }
  return 'no error'
}

const anId = fc.string({
  unit: fc.constantFrom(...'abcXYZ019!"$%&()+,-./;<=>?@[]^_`~'),
  minLength: 1,
  maxLength: 64,
})
const someClaims = fc
  .record({ activityId: anId, userId: anId, deviceId: fc.option(anId) })
  .map(({ deviceId, ...rest }): TokenClaims => (deviceId === null ? rest : { ...rest, deviceId }))

describe('signed tokens', () => {
  it('T1 are accepted for the claims they were issued for, and carry the epoch', async () => {
    const tokens = issuer()
    const token = await tokens.issue(ANN, { expiresAt: ENDS_AT, epoch: 36 })
    expect(await tokens.verify(token, ANN)).toEqual({
      status: 'valid',
      proof: { tokenId: expect.stringMatching(/^[\w-]{19}$/), issue: 36 },
    })
  })

  it('are short, safe in a URL or header, and name neither user, device nor activity', async () => {
    const kid = 'k'.repeat(32)
    const claims = { activityId: 'A'.repeat(64), userId: 'U'.repeat(64), deviceId: 'D'.repeat(64) }
    const tokens = issuer({ keys: [{ ...KEY, kid }] })
    const token = await tokens.issue(claims, { expiresAt: 99_999_999_999_999, epoch: 1e9 })
    expect(token.length).toBeLessThanOrEqual(93)
    expect(token).toMatch(/^[\w.-]+$/)
    expect(token).not.toMatch(/AA|UU|DD/)
    expect((await tokens.verify(token, claims)).status).toBe('valid')
  })

  it('C07 T1 are equal for equal claims and terms, in every process, and differ in every other case', async () => {
    const once = await issuer().issue(ANN, TERMS)
    expect(await issuer().issue({ ...ANN }, { ...TERMS })).toBe(once)
    const others = await Promise.all([
      issuer().issue({ ...ANN, userId: 'bob' }, TERMS),
      issuer().issue({ ...ANN, activityId: 'a2' }, TERMS),
      issuer().issue({ ...ANN, deviceId: 'd2' }, TERMS),
      issuer().issue({ activityId: 'a1', userId: 'ann' }, TERMS),
      issuer().issue(ANN, { ...TERMS, epoch: 2 }),
      issuer().issue(ANN, { ...TERMS, expiresAt: ENDS_AT + 1 }),
      issuer({ keys: [{ ...KEY, secret: secret(8) }] }).issue(ANN, TERMS),
    ])
    expect(new Set([once, ...others]).size).toBe(8)
  })

  it('two different claims never share a token, wherever the borders between the ids lie', async () => {
    const tokens = issuer()
    const ab = await tokens.issue({ activityId: 'ab', userId: 'c' }, TERMS)
    const a = await tokens.issue({ activityId: 'a', userId: 'bc' }, TERMS)
    expect(ab).not.toBe(a)
    await fc.assert(
      fc.asyncProperty(someClaims, someClaims, async (one, two) => {
        const same = JSON.stringify(one) === JSON.stringify(two)
        const [first, second] = [await tokens.issue(one, TERMS), await tokens.issue(two, TERMS)]
        expect(first === second).toBe(same)
        expect((await tokens.verify(first, two)).status).toBe(same ? 'valid' : 'token-not-yours')
      }),
      { numRuns: 300 },
    )
  })

  it('a part that looks like a length prefix does not move a border', async () => {
    const tokens = issuer()
    const plain = await tokens.issue({ activityId: 'a', userId: 'b', deviceId: 'c' }, TERMS)
    for (const claims of [
      { activityId: 'a', userId: 'b1:c' },
      { activityId: 'a', userId: 'b', deviceId: '1:c' },
      { activityId: 'a', userId: 'b1', deviceId: 'c' },
      { activityId: 'a', userId: 'b-' },
    ])
      expect(await tokens.verify(plain, claims)).toEqual({ status: 'token-not-yours' })
    const dashed = await tokens.issue({ activityId: 'a', userId: 'b', deviceId: 'c-' }, TERMS)
    const swallowed = { activityId: 'a', userId: 'b2:c' }
    expect(await tokens.verify(dashed, swallowed)).toEqual({ status: 'token-not-yours' })
  })

  it('C07 of another user, device or activity are told from forged ones, and stay good for their owner', async () => {
    const tokens = issuer()
    const token = await tokens.issue(ANN, TERMS)
    for (const other of [{ userId: 'bob' }, { deviceId: 'd2' }, { activityId: 'a2' }])
      expect(await tokens.verify(token, { ...ANN, ...other })).toEqual({
        status: 'token-not-yours',
      })
    expect((await tokens.verify(token, { activityId: 'a1', userId: 'ann' })).status).toBe(
      'token-not-yours',
    )
    expect((await tokens.verify(token, ANN)).status).toBe('valid')
  })

  it('are invalid after any change of a single bit, even to bob', async () => {
    const tokens = issuer()
    const token = await tokens.issue(ANN, TERMS)
    for (let at = 0; at < token.length; at++)
      for (let bit = 0; bit < 8; bit++) {
        const flipped = String.fromCharCode(token.charCodeAt(at) ^ (1 << bit))
        const forged = token.slice(0, at) + flipped + token.slice(at + 1)
        expect(await tokens.verify(forged, ANN)).toEqual({ status: 'token-invalid' })
        expect(await tokens.verify(forged, { ...ANN, userId: 'bob' })).toEqual({
          status: 'token-invalid',
        })
      }
  })

  it('are invalid when cut, lengthened, or put together from two', async () => {
    const tokens = issuer()
    const token = await tokens.issue(ANN, TERMS)
    const later = await tokens.issue(ANN, { ...TERMS, expiresAt: ENDS_AT * 2 })
    for (let to = 1; to < token.length; to++)
      expect((await tokens.verify(token.slice(0, to), ANN)).status).toBe('token-invalid')
    const signature = token.slice(token.lastIndexOf('.'))
    for (const forged of [
      `${token}A`,
      `${token}\n`,
      ` ${token}`,
      `${token}=`,
      token.toUpperCase(),
      encodeURIComponent(token).replace('.', '%2E'),
      later.slice(0, later.lastIndexOf('.')) + signature,
      token.replace('1.2026-11.1.', '1.2026-11.01.'),
    ])
      expect(await tokens.verify(forged, ANN)).toEqual({ status: 'token-invalid' })
  })

  it('whatever else comes in is missing or invalid, never a throw', async () => {
    const tokens = issuer()
    for (const nothing of [undefined, null, ''])
      expect(await tokens.verify(nothing, ANN)).toEqual({ status: 'token-missing' })
    const token = await tokens.issue(ANN, TERMS)
    for (const junk of [
      ' ',
      '\0',
      'x'.repeat(10_000),
      '.'.repeat(10_000),
      '1.2026-11.1.',
      '秒杀🔥',
      '\ud800',
      '__proto__',
      '1.__proto__.1.mxxxxxxxx.AAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAA',
      0,
      1n,
      Number.NaN,
      true,
      {},
      [],
      [token],
      [token, token],
      Symbol('t'),
      () => token,
      { toString: () => token },
    ])
      expect(await tokens.verify(junk, ANN)).toEqual({ status: 'token-invalid' })
    await fc.assert(
      fc.asyncProperty(fc.anything(), async (junk) => {
        expect((await tokens.verify(junk, ANN)).status).toMatch(/^token-(missing|invalid)$/)
      }),
      { numRuns: 300 },
    )
  })

  it('expire at their end plus the leeway, to the millisecond, and not as invalid ones', async () => {
    const token = await issuer().issue(ANN, TERMS)
    const at = async (now: number, leewayMs?: number) =>
      (await issuer({ now, ...(leewayMs === undefined ? {} : { leewayMs }) }).verify(token, ANN))
        .status
    expect(await at(0)).toBe('valid')
    expect(await at(ENDS_AT - 1, 0)).toBe('valid')
    expect(await at(ENDS_AT, 0)).toBe('token-expired')
    expect(await at(ENDS_AT)).toBe('valid')
    expect(await at(ENDS_AT + 59_999)).toBe('valid')
    expect(await at(ENDS_AT + 60_000)).toBe('token-expired')
    expect(await at(ENDS_AT + 1, 2)).toBe('valid')
    expect(await at(ENDS_AT + 2, 2)).toBe('token-expired')
    const late = issuer({ now: ENDS_AT * 2 })
    expect((await late.verify(`${token.slice(0, -1)}*`, ANN)).status).toBe('token-invalid')
    expect((await late.verify(token, { ...ANN, userId: 'bob' })).status).toBe('token-not-yours')
  })

  it('outlive a rotation of keys as long as their key is still listed', async () => {
    const old = { kid: 'old', secret: secret(1) }
    const young = { kid: 'new', secret: secret(2) }
    const token = await issuer({ keys: [old] }).issue(ANN, TERMS)
    const both = issuer({ keys: [young, old] })
    expect((await both.verify(token, ANN)).status).toBe('valid')
    const next = await both.issue(ANN, TERMS)
    expect(next).toMatch(/^1\.new\./)
    expect((await issuer({ keys: [old, young] }).verify(next, ANN)).status).toBe('valid')
    expect((await issuer({ keys: [young] }).verify(token, ANN)).status).toBe('token-invalid')
    const impostor = issuer({ keys: [{ kid: 'old', secret: secret(3) }] })
    expect((await impostor.verify(token, ANN)).status).toBe('token-invalid')
  })

  it('have an id of their own that fits a Redis key and does not lead to the token', async () => {
    const tokens = issuer()
    const ids = new Set<string>()
    for (const claims of [ANN, { ...ANN, userId: 'bob' }, { ...ANN, deviceId: 'd2' }])
      for (const epoch of [1, 2]) {
        const token = await tokens.issue(claims, { ...TERMS, epoch })
        const verified = await tokens.verify(token, claims)
        if (verified.status !== 'valid') throw new Error(verified.status)
        const { tokenId } = verified.proof
        expect(tokenId).toMatch(/^[\w-]{1,64}$/)
        expect(token).not.toContain(tokenId)
        ids.add(tokenId)
      }
    expect(ids.size).toBe(6)
  })

  it('C11 take a 64-bit user id as BigInt or string alike', async () => {
    const tokens = issuer()
    const userId = 1849302938475629013n as unknown as string
    const token = await tokens.issue({ activityId: 'a1', userId }, TERMS)
    const same = { activityId: 'a1', userId: '1849302938475629013' }
    expect((await tokens.verify(token, same)).status).toBe('valid')
    const next = { activityId: 'a1', userId: '1849302938475629014' }
    expect((await tokens.verify(token, next)).status).toBe('token-not-yours')
  })
})

describe('what the host gets wrong', () => {
  const bad = (value: unknown) => value as TokenClaims

  it.each([
    ['no claims', bad(undefined)],
    ['null', bad(null)],
    ['an array', bad([])],
    ['no user', bad({ activityId: 'a1' })],
    ['an empty user', bad({ activityId: 'a1', userId: '' })],
    ['a number as user', bad({ activityId: 'a1', userId: 7 })],
    ['a user with a blank', bad({ activityId: 'a1', userId: 'a b' })],
    ['a user with the separator', bad({ activityId: 'a1', userId: 'a|b' })],
    ['a long user', bad({ activityId: 'a1', userId: 'u'.repeat(65) })],
    ['an activity with braces', bad({ activityId: '{a}', userId: 'ann' })],
    ['an activity with a colon', bad({ activityId: 'a:1', userId: 'ann' })],
    ['an empty device', bad({ ...ANN, deviceId: '' })],
    ['a null device', bad({ ...ANN, deviceId: null })],
    ['a device with the separator', bad({ ...ANN, deviceId: 'a|b' })],
  ])(
    'claims with %s are BAD_INPUT in issue and verify, even without a token',
    async (_, claims) => {
      expect(await codeOf(() => issuer().issue(claims, TERMS))).toBe('BAD_INPUT')
      expect(await codeOf(() => issuer().verify(undefined, claims))).toBe('BAD_INPUT')
    },
  )

  it.each([
    { expiresAt: 1_795_000_000, epoch: 1 },
    { expiresAt: Number.NaN, epoch: 1 },
    { expiresAt: '2026-11-11', epoch: 1 },
    { expiresAt: ENDS_AT, epoch: 0 },
    { expiresAt: ENDS_AT, epoch: 1.5 },
    { expiresAt: ENDS_AT, epoch: 1e9 + 1 },
    { expiresAt: ENDS_AT, epoch: '1' },
    { expiresAt: ENDS_AT },
    undefined,
  ])('terms %j are BAD_INPUT', async (terms) => {
    expect(await codeOf(() => issuer().issue(ANN, terms as typeof TERMS))).toBe('BAD_INPUT')
  })

  const text = 'correct-horse-battery-staple-correct-horse'
  const store = { evalsha: async () => [], eval: async () => [] }
  it.each([
    ['nothing', undefined],
    ['neither keys nor store', {}],
    ['both keys and store', { keys: [KEY], store }],
    ['no key', { keys: [] }],
    ['keys as an object', { keys: { KEY } }],
    ['too many keys', { keys: Array.from({ length: 17 }, (_, i) => ({ ...KEY, kid: `k${i}` })) }],
    ['a secret of 31 bytes', { keys: [{ kid: 'k', secret: new Uint8Array(31) }] }],
    ['a secret of 1,025 bytes', { keys: [{ kid: 'k', secret: new Uint8Array(1025) }] }],
    ['a secret as text', { keys: [{ kid: 'k', secret: text }] }],
    ['kid and secret swapped', { keys: [{ kid: `${text}!`, secret: 'k' }] }],
    ['a kid with a dot', { keys: [{ ...KEY, kid: 'a.b' }] }],
    ['a kid of 33 characters', { keys: [{ ...KEY, kid: 'k'.repeat(33) }] }],
    ['a kid named twice', { keys: [KEY, { ...KEY }] }],
    ['an undefined key', { keys: [undefined] }],
    ['a negative leeway', { keys: [KEY], leewayMs: -1 }],
    ['a leeway of days', { keys: [KEY], leewayMs: 3_600_001 }],
    ['a clock that is no function', { keys: [KEY], clock: 5 }],
    ['a store that is none', { store: {} }],
    ['a time limit of 0', { store, timeoutMs: 0 }],
  ])('%s: BAD_OPTION, and the message shows no secret', (_, options) => {
    let error: unknown
    try {
      new TokenIssuer(options as never)
    } catch (caught) {
      error = caught
    }
    expect(error).toBeInstanceOf(FlashSaleError)
    expect((error as FlashSaleError).code).toBe('BAD_OPTION')
    expect(inspect(error)).not.toContain('correct-horse')
  })

  it('takes secrets of 32 and of 1,024 bytes, and a leeway of 0 and of an hour', () => {
    for (const bytes of [32, 1024])
      for (const leewayMs of [0, 3_600_000])
        new TokenIssuer({ keys: [{ kid: 'k', secret: new Uint8Array(bytes) }], leewayMs })
  })

  it('secrets show neither in inspect nor in JSON, and changing the array later changes nothing', async () => {
    const mine = randomBytes(32)
    const hex = mine.toString('hex')
    const tokens = new TokenIssuer({ keys: [{ kid: 'k', secret: mine }] })
    const before = await tokens.issue(ANN, TERMS)
    mine.fill(0)
    expect(await tokens.issue(ANN, TERMS)).toBe(before)
    const shown = inspect(tokens, { depth: 20, showHidden: true, getters: true })
    for (const secret of [hex, hex.slice(0, 8), 'kid', 'secret']) {
      expect(shown).not.toContain(secret)
      expect(JSON.stringify(tokens)).not.toContain(secret)
    }
  })

  it('signed tokens cannot be revoked one by one', async () => {
    expect(await codeOf(() => issuer().revoke('a1', 'x'))).toBe('BAD_OPTION')
  })
})
