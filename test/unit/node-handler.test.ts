import { describe, expect, it } from 'vitest'
import { FlashSaleError } from '../../src/core/errors.js'
import type { Submitted } from '../../src/core/types.js'
import { type NodeHandlerOptions, nodeHandler, type Sale } from '../../src/http/index.js'
import { TokenIssuer } from '../../src/token/token-issuer.js'
import { PATH, serve } from '../suites/serve-http.js'

describe('the routes', () => {
  it('Q1 answer a submit with 202 and the order number, and no store', async () => {
    const { send, asked } = await serve()
    const body = JSON.stringify({ quantity: 2, payload: { addressId: '7' } })
    const answer = await send({ headers: { 'x-seckill-token': 'tok' }, body })
    expect(answer.status).toBe(202)
    expect(answer.body).toEqual({ code: 'SECKILL_QUEUED', orderNo: 'n1', replayed: false })
    expect(answer.headers).toMatchObject({
      'cache-control': 'no-store',
      'content-type': 'application/json',
      'content-length': String(answer.raw.length),
    })
    expect(asked).toEqual([
      {
        activityId: 'a1',
        skuId: 's1',
        buyer: { userId: 'ann', ip: '127.0.0.1' },
        token: 'tok',
        quantity: 2,
        payload: { addressId: '7' },
      },
    ])
  })

  it('issue a token and tell the result of the buyer, whatever number he names', async () => {
    const { send, asked } = await serve()
    const token = await send({ path: '/api/seckill/a1/token' })
    expect([token.status, token.body]).toEqual([200, { code: 'SECKILL_TOKEN', token: 'tok' }])
    const path = '/api/seckill/a1/s1/result'
    const result = await send({ method: 'GET', path })
    expect([result.status, result.body]).toEqual([
      200,
      { code: 'SECKILL_CONFIRMED', orderNo: 'n1' },
    ])
    await send({ method: 'GET', path: `${path}?orderNo=n7` })
    expect(JSON.stringify(asked)).not.toContain('n7')
  })

  it('take the buyer from the session only, whatever the body says', async () => {
    const { send, asked } = await serve()
    const body = JSON.stringify({
      userId: 'bob',
      buyer: { userId: 'bob' },
      activityId: 'a2',
      skuId: 's2',
      token: 'x',
      price: 0,
      __proto__: { userId: 'bob' },
    })
    expect((await send({ body })).status).toBe(202)
    expect(asked[0]).toEqual({
      activityId: 'a1',
      skuId: 's1',
      buyer: { userId: 'ann', ip: '127.0.0.1' },
      token: undefined,
    })
    const anonymous = await serve({ buyer: async () => null })
    const refused = await anonymous.send({ body })
    expect([refused.status, refused.body]).toEqual([401, { code: 'SECKILL_NOT_SIGNED_IN' }])
    expect(anonymous.asked).toEqual([])
  })

  it.each([
    ['HEAD', PATH, 'POST'],
    ['PUT', PATH, 'POST'],
    ['GET', PATH, 'POST'],
    ['GET', '/api/seckill/a1/token', 'POST'],
    ['DELETE', '/api/seckill/a1/s1/result', 'GET'],
    ['POST', '/api/seckill/a1/s1/result', 'GET'],
    ['HEAD', '/api/seckill/a1/s1/result', 'GET'],
  ])('refuse %s %s, which takes %s', async (method, path, allow) => {
    const { send, asked } = await serve()
    const answer = await send({ method, path })
    expect(answer.status).toBe(405)
    expect(answer.headers.allow).toBe(allow)
    expect(answer.headers['cache-control']).toBe('no-store')
    expect(asked).toEqual([])
  })

  it.each([
    '/',
    '/api/seckill',
    '/api/seckill/',
    '/api/seckillx/a1/s1/submit',
    '/api/seckill/a1/s1/submit/',
    '/api/seckill/a1/submit',
    '/api/seckill/a1/s1/open',
    '/api/seckill/a1/s1/x/submit',
    '/api/seckill/a1/control',
  ])('know no path %s', async (path) => {
    const { send, asked } = await serve()
    for (const method of ['GET', 'POST']) {
      const answer = await send({ method, path })
      expect([answer.status, answer.body]).toEqual([404, { code: 'SECKILL_NOT_FOUND' }])
    }
    expect(asked).toEqual([])
  })

  it.each([
    ['half an escape', '%'],
    ['no escape', '%zz'],
    ['half a character', '%E0%A4%A'],
    ['braces', '{a}'],
    ['a colon', 'a:b'],
    ['a NUL', 'a%00b'],
    ['a bar', 'a%7Cb'],
    ['a line break', '%0A'],
    ['nothing', ''],
    ['65 characters', 'x'.repeat(65)],
    ['10 kB', 'x'.repeat(10_000)],
  ])('C06 refuse an id of %s before the sale is asked', async (_, id) => {
    const { send, asked, errors } = await serve()
    for (const path of [`/api/seckill/${id}/s1/submit`, `/api/seckill/a1/${id}/submit`])
      expect((await send({ path })).status).toBe(400)
    expect((await send({ path: `/api/seckill/${id}/token` })).status).toBe(400)
    expect((await send({ method: 'GET', path: `/api/seckill/a1/${id}/result` })).status).toBe(400)
    expect(asked).toEqual([])
    expect(errors).toEqual([])
  })

  it('take ids with escaped characters', async () => {
    const { send, asked } = await serve()
    await send({ path: '/api/seckill/a%2F1/s%251/submit?x=1' })
    expect(asked[0]).toMatchObject({ activityId: 'a/1', skuId: 's%1' })
  })
})

describe('tokens', () => {
  const tokens = new TokenIssuer({ keys: [{ kid: 'k1', secret: new Uint8Array(32).fill(7) }] })
  const verifying: Partial<Sale> = {
    submit: async ({ activityId, buyer, token }): Promise<Submitted> => {
      const verified = await tokens.verify(token, { activityId, userId: String(buyer.userId) })
      return verified.status === 'valid' ? { status: 'sold-out' } : verified
    },
  }

  it('F4 forged, foreign, doubled and missing ones are 403, each with its code', async () => {
    const { send, errors } = await serve({ sale: verifying })
    const terms = { expiresAt: Date.now() + 60_000, epoch: 1 }
    const anns = await tokens.issue({ activityId: 'a1', userId: 'ann' }, terms)
    const bobs = await tokens.issue({ activityId: 'a1', userId: 'bob' }, terms)
    const codeFor = async (token?: string | string[]) => {
      const { status, body } = await send(
        token === undefined ? {} : { headers: { 'x-seckill-token': token } },
      )
      return [status, (body as { code: string }).code]
    }
    const invalid = [403, 'SECKILL_TOKEN_INVALID']
    expect(await codeFor(anns)).toEqual([409, 'SECKILL_SOLD_OUT'])
    expect(await codeFor(bobs)).toEqual([403, 'SECKILL_TOKEN_NOT_YOURS'])
    expect(await codeFor()).toEqual([403, 'SECKILL_TOKEN_MISSING'])
    expect(await codeFor('')).toEqual([403, 'SECKILL_TOKEN_MISSING'])
    for (const forged of [`${anns}x`, anns.slice(0, -1), anns.toUpperCase(), 'x'.repeat(10_000)])
      expect(await codeFor(forged)).toEqual(invalid)
    expect(await codeFor([anns, anns])).toEqual(invalid)
    expect(errors).toEqual([])
  })
})

describe('errors', () => {
  it('are told to the host as they are, and to the buyer without a word of them', async () => {
    const broken = new FlashSaleError('REDIS_REFUSED', 'READONLY at 10.0.0.1')
    const { send, errors } = await serve({
      sale: {
        submit: async () => {
          throw broken
        },
        result: async () => {
          throw new TypeError('undefined is not a function')
        },
      },
    })
    const submit = await send({ headers: { 'x-seckill-token': 'tok' }, body: '{"payload":"p"}' })
    expect([submit.status, submit.raw]).toEqual([503, '{"code":"SECKILL_UNAVAILABLE"}'])
    expect(submit.headers['retry-after']).toBe('1')
    const result = await send({ method: 'GET', path: '/api/seckill/a1/s1/result' })
    expect([result.status, result.raw]).toEqual([500, '{"code":"SECKILL_INTERNAL"}'])
    expect(errors[0]).toBe(broken)
    expect(errors[1]).toBeInstanceOf(TypeError)
  })

  it('of the session and of the log itself are 500, and the server lives on', async () => {
    const { send } = await serve({
      buyer: (req) => {
        if (req.headers['x-test-user'] === 'ann') throw new Error('no session store')
        return { userId: 'bob', ip: '' }
      },
      onError: () => {
        throw new Error('no log')
      },
    })
    expect((await send()).status).toBe(500)
    expect((await send({ headers: { 'x-test-user': 'bob' } })).status).toBe(202)
  })

  it('of a session that yields no usable id are reported: that is the host, not the buyer', async () => {
    const refuse = new FlashSaleError('BAD_INPUT', 'userId must be …')
    const { send, errors } = await serve({
      sale: { submit: () => Promise.reject(refuse) },
    })
    expect((await send()).status).toBe(400)
    expect(errors).toEqual([refuse])
  })
})

it('refuses options that cannot work, naming them', () => {
  const sale = { token() {}, submit() {}, result() {} } as unknown as Sale
  const buyer = () => null
  const handlerWith = (o: unknown) => () => nodeHandler(sale, o as NodeHandlerOptions)
  expect(handlerWith(undefined)).toThrow(/options/)
  expect(handlerWith({})).toThrow(/buyer/)
  expect(handlerWith({ buyer, prefix: 'api' })).toThrow(/prefix/)
  expect(handlerWith({ buyer, prefix: '/api/' })).toThrow(/prefix/)
  expect(handlerWith({ buyer, maxBodyBytes: 0 })).toThrow(/maxBodyBytes/)
  expect(() => nodeHandler({} as Sale, { buyer })).toThrow(/sale\.token/)
})
