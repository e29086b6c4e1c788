import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import Router from '@koa/router'
import express from 'express'
import Koa from 'koa'
import { afterEach, describe, expect, it } from 'vitest'
import { seckillErrors, seckillExpress } from '../../src/express/index.js'
import type { Sale } from '../../src/http/index.js'
import { seckillKoa } from '../../src/koa/index.js'
import type { SubmitRequest } from '../../src/pipeline/options.js'

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function fakeSale(): { readonly sale: Sale; readonly asked: SubmitRequest[] } {
  const asked: SubmitRequest[] = []
  const sale: Sale = {
    token: async () => ({ status: 'issued', token: 'tok' }),
    submit: async (q) => {
      asked.push(q)
      if (q.skuId === 'broken') throw new Error('secret host name')
      return { status: 'queued', orderNo: 'n1', replayed: false }
    },
    result: async () => ({ status: 'none' }),
  }
  return { sale, asked }
}

const buyerOfExpress = (req: express.Request) => {
  const userId = req.get('x-test-user')
  return userId ? { userId, ip: req.ip ?? '' } : null
}

type Install = (app: express.Express, sale: Sale) => void
/** The real types of Express and Koa meet ours here: what is not assignable does not compile. */
const onExpress = (before: Install) => (sale: Sale) => {
  const app = express()
  before(app, sale)
  app.use('/api/seckill', seckillExpress(sale, { buyer: buyerOfExpress }), seckillErrors)
  app.use((_req, res) => void res.status(418).json({ code: 'HOST' }))
  return listen(app)
}

const buyerOfKoa = (ctx: Koa.Context) => {
  const userId = ctx.get('x-test-user')
  return userId ? { userId, ip: ctx.ip } : null
}
const onKoa = (use: (app: Koa, sale: Sale) => void) => (sale: Sale) => {
  const app = new Koa()
  use(app, sale)
  app.use((ctx) => {
    ctx.status = 418
    ctx.body = { code: 'HOST' }
  })
  return listen(app.callback())
}

/** What koa-bodyparser does, without its being installed: `{}` where it reads nothing. */
const koaBodyParser: Koa.Middleware = async (ctx, next) => {
  let text = ''
  if (ctx.is('json')) for await (const chunk of ctx.req) text += chunk
  Object.assign(ctx.request, { body: text === '' ? {} : JSON.parse(text) })
  await next()
}

const hosts: readonly (readonly [string, (sale: Sale) => Promise<string>])[] = [
  ['Express without a parser', onExpress(() => {})],
  ['Express behind express.json', onExpress((app) => app.use(express.json({ limit: '4kb' })))],
  ['Express behind express.raw', onExpress((app) => app.use(express.raw({ type: '*/*' })))],
  ['Express behind express.text', onExpress((app) => app.use(express.text({ type: '*/*' })))],
  [
    'a router of Express',
    onExpress((app, sale) => {
      const router = express.Router()
      router.use('/:area/seckill', seckillExpress(sale, { buyer: buyerOfExpress }), seckillErrors)
      app.use(router)
    }),
  ],
  ['Koa without a parser', onKoa((app, sale) => app.use(seckillKoa(sale, { buyer: buyerOfKoa })))],
  [
    'Koa behind a parser',
    onKoa((app, sale) => {
      app.use(koaBodyParser).use(seckillKoa(sale, { buyer: buyerOfKoa }))
    }),
  ],
  [
    'a router of Koa',
    onKoa((app, sale) => {
      const router = new Router()
      router.use(seckillKoa(sale, { buyer: buyerOfKoa }))
      // A router runs what it uses only for routes it has.
      router.all('/api/seckill/{*path}', (_ctx, next) => next())
      app.use(router.routes())
    }),
  ],
]

describe.each(hosts)('%s', (_name, start) => {
  const json = { 'content-type': 'application/json', 'x-test-user': 'ann' }
  const path = '/api/seckill/a1/s1/submit'

  it('serves the three routes and leaves other paths to the host', async () => {
    const { sale, asked } = fakeSale()
    const url = await start(sale)
    const body = JSON.stringify({ quantity: 2, payload: { a: 1 }, userId: 'bob' })
    const headers = { ...json, 'x-seckill-token': 'tok' }
    const submit = await fetch(url + path, { method: 'POST', headers, body })
    expect(submit.status).toBe(202)
    expect(submit.headers.get('cache-control')).toBe('no-store')
    expect(submit.headers.get('content-type')).toMatch(/^application\/json/)
    expect(await submit.json()).toEqual({ code: 'SECKILL_QUEUED', orderNo: 'n1', replayed: false })
    expect(asked).toMatchObject([
      { activityId: 'a1', skuId: 's1', token: 'tok', quantity: 2, payload: { a: 1 } },
    ])
    expect(asked[0]?.buyer.userId).toBe('ann')

    const token = await fetch(`${url}/api/seckill/a1/token`, { method: 'POST', headers: json })
    expect(await token.json()).toEqual({ code: 'SECKILL_TOKEN', token: 'tok' })
    const result = await fetch(`${url}/api/seckill/a1/s1/result?x=1`, { headers: json })
    expect([result.status, await result.json()]).toEqual([404, { code: 'SECKILL_NO_ORDER' }])

    const other = await fetch(`${url}/api/seckill/a1/s1/page`, { headers: json })
    expect([other.status, await other.json()]).toEqual([418, { code: 'HOST' }])
    expect((await fetch(url + path, { headers: json })).status).toBe(405)
  })

  it('answers bodies nobody can use, people nobody knows, and errors nobody may see', async () => {
    const { sale, asked } = fakeSale()
    const url = await start(sale)
    const post = async (body: string | undefined, headers: Record<string, string> = json) => {
      const res = await fetch(url + path, { method: 'POST', headers, ...(body ? { body } : {}) })
      return [res.status, ((await res.json()) as { code: string }).code]
    }
    const bad = [400, 'SECKILL_BAD_REQUEST']
    if (!_name.includes('Koa behind')) {
      // (The stand-in for a parser of Koa throws its own error.)
      expect(await post('{"quantity":')).toEqual(bad)
      expect(await post(`{"x":"${'x'.repeat(5_000)}"}`)).toEqual([413, 'SECKILL_TOO_LARGE'])
    }
    expect(await post('[]')).toEqual(bad)
    expect(await post('{"quantity":"2"}')).toEqual(bad)
    expect(await post('{}', { 'content-type': 'application/json' })).toEqual([
      401,
      'SECKILL_NOT_SIGNED_IN',
    ])
    expect(asked).toEqual([])
    expect(await post(undefined)).toEqual([202, 'SECKILL_QUEUED'])
    const broken = await fetch(`${url}/api/seckill/a1/broken/submit`, {
      method: 'POST',
      headers: json,
    })
    expect([broken.status, await broken.text()]).toEqual([500, '{"code":"SECKILL_INTERNAL"}'])
  })
})

it('hands errors of the host on, behind the routes of Express', async () => {
  const app = express()
  app.use((_req, _res, next) => next(new Error('host')))
  app.use(seckillErrors)
  const seen: unknown[] = []
  app.use(((error, _req, res, _next) => {
    seen.push(error)
    res.status(599).end()
  }) satisfies express.ErrorRequestHandler)
  expect((await fetch(await listen(app))).status).toBe(599)
  expect(seen).toEqual([new Error('host')])
})
