import { describe, expect, it } from 'vitest'
import { type ErrorCode, FlashSaleError } from '../../src/core/errors.js'
import { errorToHttp, type HttpAnswer, toHttp } from '../../src/http/index.js'

type Outcome = Parameters<typeof toHttp>[0]
type Case = readonly [Outcome, number, HttpAnswer['body']]

const reservation = {
  orderNo: 'n1',
  activityId: 'a1',
  skuId: 's1',
  userId: 'ann',
  quantity: 1,
  bucket: 0,
  version: 'v1',
  reservedAt: 1_795_000_000_000,
  payload: { address: 'secret street' },
}

const cases: readonly Case[] = [
  [{ status: 'issued', token: 't' }, 200, { code: 'SECKILL_TOKEN', token: 't' }],
  [
    { status: 'queued', orderNo: 'n1', replayed: true },
    202,
    { code: 'SECKILL_QUEUED', orderNo: 'n1', replayed: true },
  ],
  [{ status: 'queued', orderNo: 'n1' }, 202, { code: 'SECKILL_QUEUED', orderNo: 'n1' }],
  [
    { status: 'reserved', reservation, replayed: false },
    202,
    { code: 'SECKILL_QUEUED', orderNo: 'n1', replayed: false },
  ],
  [{ status: 'unknown', orderNo: 'n1' }, 202, { code: 'SECKILL_UNKNOWN', orderNo: 'n1' }],
  [{ status: 'confirmed', orderNo: 'n1' }, 200, { code: 'SECKILL_CONFIRMED', orderNo: 'n1' }],
  [{ status: 'paid', orderNo: 'n1' }, 200, { code: 'SECKILL_PAID', orderNo: 'n1' }],
  [
    { status: 'closed', orderNo: 'n1', reason: 'unpaid' },
    200,
    { code: 'SECKILL_CLOSED', orderNo: 'n1', reason: 'unpaid' },
  ],
  [{ status: 'none' }, 404, { code: 'SECKILL_NO_ORDER' }],
  [{ status: 'not-found' }, 404, { code: 'SECKILL_NOT_FOUND' }],
  [
    { status: 'not-open', opensAt: 1_795_000_000_000 },
    403,
    { code: 'SECKILL_NOT_OPEN', opensAt: 1_795_000_000_000 },
  ],
  [{ status: 'ended' }, 403, { code: 'SECKILL_ENDED' }],
  [{ status: 'stopped' }, 403, { code: 'SECKILL_STOPPED' }],
  [{ status: 'denied', reason: 'captcha' }, 403, { code: 'SECKILL_DENIED', reason: 'captcha' }],
  [
    { status: 'rate-limited', by: 'ip', retryAfterMs: 200 },
    429,
    { code: 'SECKILL_RATE_LIMIT', by: 'ip', retryAfterMs: 200 },
  ],
  [{ status: 'token-missing' }, 403, { code: 'SECKILL_TOKEN_MISSING' }],
  [{ status: 'token-invalid' }, 403, { code: 'SECKILL_TOKEN_INVALID' }],
  [{ status: 'token-expired' }, 403, { code: 'SECKILL_TOKEN_EXPIRED' }],
  [{ status: 'token-not-yours' }, 403, { code: 'SECKILL_TOKEN_NOT_YOURS' }],
  [{ status: 'token-revoked' }, 403, { code: 'SECKILL_TOKEN_REVOKED' }],
  [
    { status: 'already-bought', orderNo: 'n0' },
    409,
    { code: 'SECKILL_ALREADY_BOUGHT', orderNo: 'n0' },
  ],
  [{ status: 'over-limit', maxPerOrder: 2 }, 409, { code: 'SECKILL_OVER_LIMIT', maxPerOrder: 2 }],
  [{ status: 'sold-out' }, 409, { code: 'SECKILL_SOLD_OUT' }],
  [{ status: 'not-enough', available: 1 }, 409, { code: 'SECKILL_NOT_ENOUGH', available: 1 }],
  [
    { status: 'busy', cause: 'watermark', retryAfterMs: 1_500 },
    503,
    { code: 'SECKILL_BUSY', cause: 'watermark', retryAfterMs: 1_500 },
  ],
  [{ status: 'try-again' }, 503, { code: 'SECKILL_TRY_AGAIN' }],
  [{ status: 'not-warmed' }, 503, { code: 'SECKILL_NOT_WARMED' }],
  [{ status: 'version-mismatch' }, 503, { code: 'SECKILL_VERSION' }],
  [{ status: 'script-mismatch' }, 503, { code: 'SECKILL_SCRIPT' }],
  [{ status: 'rewound' }, 503, { code: 'SECKILL_REWOUND' }],
]

describe('toHttp', () => {
  it.each(cases)('F3 F6 answers %j with %i', (outcome, http, body) => {
    const answer = toHttp(outcome)
    expect(answer.http).toBe(http)
    expect(answer.body).toEqual(body)
    expect(answer.headers['Cache-Control']).toBe('no-store')
  })

  it('F6 has a code of its own for every refusal', () => {
    const codes = cases.map(([outcome]) => toHttp(outcome).body.code)
    // queued is met three times: as an outcome, as a result, and as `reserved` of the bucket.
    expect(new Set(codes).size).toBe(cases.length - 2)
  })

  it('says when to come back in whole seconds, never too early', () => {
    const after = (retryAfterMs: number) =>
      toHttp({ status: 'busy', cause: 'probe', retryAfterMs }).headers['Retry-After']
    expect([0, 1, 1_000, 1_001].map(after)).toEqual(['1', '1', '1', '2'])
    const limited = { status: 'rate-limited', by: 'user', retryAfterMs: 2_100 } as const
    expect(toHttp(limited).headers['Retry-After']).toBe('3')
    expect(toHttp({ status: 'try-again' }).headers['Retry-After']).toBe('1')
    expect(toHttp({ status: 'sold-out' }).headers).not.toHaveProperty('Retry-After')
  })

  it('does not send what the status does not name', () => {
    const outcome = { status: 'sold-out', reservation, secret: 1 } as unknown as Outcome
    expect(toHttp(outcome).body).toEqual({ code: 'SECKILL_SOLD_OUT' })
    expect(
      JSON.stringify(toHttp({ status: 'reserved', reservation, replayed: false })),
    ).not.toMatch(/secret/)
  })

  it('answers a status it does not know, also one that every object has, as an internal error', () => {
    for (const status of ['no-such', 'constructor', '__proto__', 'toString'])
      expect(toHttp({ status } as unknown as Outcome)).toMatchObject({
        http: 500,
        body: { code: 'SECKILL_INTERNAL' },
      })
  })

  it('shares answers nobody can change', () => {
    const answer = toHttp({ status: 'sold-out' })
    expect(answer).toBe(toHttp({ status: 'sold-out' }))
    expect(Object.isFrozen(answer) && Object.isFrozen(answer.headers)).toBe(true)
    expect(Object.isFrozen(answer.body)).toBe(true)
  })
})

describe('errorToHttp', () => {
  const byCode: Readonly<Record<ErrorCode, readonly [number, string]>> = {
    BAD_INPUT: [400, 'SECKILL_BAD_REQUEST'],
    BAD_OPTION: [500, 'SECKILL_INTERNAL'],
    BAD_MESSAGE: [500, 'SECKILL_INTERNAL'],
    CORRUPT: [500, 'SECKILL_INTERNAL'],
    REDIS_REFUSED: [503, 'SECKILL_UNAVAILABLE'],
    REDIS_UNAVAILABLE: [503, 'SECKILL_UNAVAILABLE'],
    DB_BUSY: [503, 'SECKILL_UNAVAILABLE'],
    DB_UNAVAILABLE: [503, 'SECKILL_UNAVAILABLE'],
    QUEUE_UNAVAILABLE: [503, 'SECKILL_UNAVAILABLE'],
    STOPPED: [503, 'SECKILL_UNAVAILABLE'],
    OUTCOME_UNKNOWN: [503, 'SECKILL_UNAVAILABLE'],
    NOT_WARMED: [503, 'SECKILL_NOT_WARMED'],
  }
  it.each(Object.entries(byCode))('answers %s with %j', (code, [http, word]) => {
    const answer = errorToHttp(new FlashSaleError(code as ErrorCode, 'redis://:pw@10.0.0.1'))
    expect([answer.http, answer.body]).toEqual([http, { code: word }])
    expect(answer.headers['Retry-After']).toBe(word === 'SECKILL_UNAVAILABLE' ? '1' : undefined)
    expect(answer.headers['Cache-Control']).toBe('no-store')
  })

  it('shows nothing of an error that is not ours', () => {
    for (const thrown of [new TypeError('at /srv/shop'), 'a string', null, { code: 'BAD_INPUT' }])
      expect(errorToHttp(thrown)).toMatchObject({ http: 500, body: { code: 'SECKILL_INTERNAL' } })
  })

  it('understands what body parsers throw', () => {
    const httpOf = (status: number) =>
      errorToHttp(Object.assign(new Error('request entity'), { status })).http
    expect([413, 415, 400, 499, 500].map(httpOf)).toEqual([413, 415, 400, 400, 500])
  })
})
