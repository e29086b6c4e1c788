import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server as HttpServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { demoActivity } from '../../examples/express/operate.js'
import { openShop } from '../../examples/express/server.js'
import { freshDatabase } from '../harness/databases.js'
import { freePort, until } from '../harness/net.js'
import { freshRedis } from '../harness/redis.js'
import { removeScratch, scratchFolder } from '../harness/scratch.js'
import { startNginx } from '../harness/services.js'
import { spawnNode } from '../harness/spawn-node.js'

const CONFIG = readFileSync(new URL('../../examples/nginx/seckill.conf', import.meta.url), 'utf8')
const AUDIT = { actor: 'test', reason: 'test of the gateway' }

let pages: string
const closers: (() => unknown)[] = []

beforeAll(() => {
  pages = scratchFolder('pages')
  mkdirSync(join(pages, 'sale'))
  writeFileSync(join(pages, 'sale/index.html'), '<title>sale</title>')
})
afterAll(async () => {
  for (const close of closers.reverse()) await close()
  removeScratch(pages)
})

/** The reference as it is, but for its placeholders; by default this test is the trusted proxy in front of it. */
async function gateway(app: string, trustedProxy = '127.0.0.1') {
  const server = await startNginx({
    config: (port) => {
      const values: Readonly<Record<string, string>> = {
        SECKILL_LISTEN: `127.0.0.1:${port}`,
        SECKILL_APP: app,
        SECKILL_TRUSTED_PROXY: trustedProxy,
        SECKILL_PAGES: pages,
      }
      return CONFIG.replace(/\$\{(SECKILL_\w+)\}/g, (all, name) => values[name] ?? all)
    },
  })
  closers.push(() => server.stop())
  return `http://127.0.0.1:${server.port}`
}

interface Seen {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** Notes what reaches it. Its activities behave as they are called. */
async function upstream() {
  const seen: Seen[] = []
  let connections = 0
  const server: HttpServer = createServer(async (req, res) => {
    let body = ''
    for await (const chunk of req) body += chunk
    const { method = '', url = '', headers } = req
    seen.push({ method, url, headers, body })
    if (url.includes('/hangup/')) return void req.socket.destroy()
    if (url.includes('/slow/')) await sleep(3_000)
    const json = { 'content-type': 'application/json' }
    if (url.includes('/busy/'))
      res.writeHead(503, { ...json, 'retry-after': '7', 'cache-control': 'no-store' })
    else if (url.includes('/limited/')) res.writeHead(429, { ...json, 'retry-after': '9' })
    else res.writeHead(202, { ...json, 'cache-control': 'private' })
    res.end('{"code":"FROM_THE_APP"}')
  })
  server.on('connection', () => connections++)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  const of = (part: string) => seen.filter((request) => request.url.includes(part))
  return { address: `127.0.0.1:${port}`, of, connections: () => connections }
}

async function ask(url: string, init: RequestInit & { from?: string } = {}) {
  const { from, ...rest } = init
  const startedAt = performance.now()
  const res = await fetch(url, {
    method: 'POST',
    ...rest,
    headers: { ...(from ? { 'x-forwarded-for': from } : {}), ...rest.headers },
  })
  const text = await res.text()
  const header = (name: string) => res.headers.get(name)
  return { status: res.status, text, header, tookMs: performance.now() - startedAt }
}

function expectOurs(
  answer: Awaited<ReturnType<typeof ask>>,
  status: number,
  body: Readonly<Record<string, unknown>>,
): void {
  expect([answer.status, JSON.parse(answer.text)]).toEqual([status, body])
  expect(answer.header('content-type')).toBe('application/json')
  expect(answer.header('cache-control')).toBe('no-store')
  expect(answer.header('retry-after')).toBe(status === 413 ? null : '1')
}
const LIMITED = { code: 'SECKILL_RATE_LIMIT', by: 'ip', retryAfterMs: 1_000 }
const UNAVAILABLE = { code: 'SECKILL_UNAVAILABLE' }

describe('the reference nginx in front of a small server', () => {
  let app: Awaited<ReturnType<typeof upstream>>
  let url: string
  beforeAll(async () => {
    app = await upstream()
    url = await gateway(app.address)
  })

  /** So many at once; how many of them passed, once each refusal has been looked at. */
  async function burst(path: string, from: (i: number) => string, times = 40) {
    const startedAt = performance.now()
    const all = Array.from({ length: times }, (_, i) => ask(`${url}${path}`, { from: from(i) }))
    const answers = await Promise.all(all)
    const refused = answers.filter((answer) => answer.status !== 202)
    for (const answer of refused) expectOurs(answer, 429, LIMITED)
    const refilled = Math.ceil(((performance.now() - startedAt) / 1_000) * 5)
    return { passed: times - refused.length, atMost: 11 + refilled }
  }

  it('F9 limits clicks per address: a burst of ten behind the first, the rest hear 429 in our words', async () => {
    const { passed, atMost } = await burst('/api/seckill/many/phone/submit', () => '203.0.113.1')
    expect(passed).toBeGreaterThanOrEqual(11)
    expect(passed).toBeLessThanOrEqual(atMost)
    expect(app.of('/many/').length).toBe(passed)
    const other = await ask(`${url}/api/seckill/many/phone/submit`, { from: '203.0.113.2' })
    expect(other.status).toBe(202)
  })

  it('F9 the limit is for clicks alone: token, result and the rest of the shop go on for that address', async () => {
    const from = '203.0.113.3'
    await burst('/api/seckill/only/phone/submit', () => from)
    for (const path of ['/api/seckill/a/token', '/api/seckill/a/phone/result', '/cart/submit']) {
      const all = Array.from({ length: 20 }, () => ask(`${url}${path}`, { from }))
      for (const answer of await Promise.all(all)) expect(answer.status).toBe(202)
    }
  })

  it.each([
    ['/API/Seckill/odd/phone/submit', '203.0.113.10'],
    ['/api/seckill/odd/phone/SUBMIT/', '203.0.113.11'],
    ['/api/seckill/odd/phone/submit?a=1', '203.0.113.12'],
    ['/api/seckill/odd/phone/%73ubmit', '203.0.113.13'],
    ['/api/seckill/odd%0A/phone/submit', '203.0.113.14'],
    ['/api/seckill//odd//phone//submit', '203.0.113.15'],
  ])('F9 there is no way around the limit: %s', async (path, from) => {
    const { passed, atMost } = await burst(path, () => from)
    expect(passed).toBeLessThanOrEqual(atMost)
  })

  it.each([
    ['written in full', (i: number) => `2001:db8:0:7:${i + 1}:1:1:1`],
    ['with zeros left out', (i: number) => `2001:db8:5::${i + 1}`],
    ['with more left out', (i: number) => `2001:db8::${i + 1}`],
  ])('F9 one caller is an IPv6 /64, %s', async (_, from) => {
    const path = '/api/seckill/v6/phone/submit'
    const { passed, atMost } = await burst(path, from)
    expect(passed).toBeLessThanOrEqual(atMost)
    const neighbour = from(0).replace('2001:db8:', '2001:db9:')
    expect((await ask(`${url}${path}`, { from: neighbour })).status).toBe(202)
  })

  it('an ordinary click passes as it is, with the address of the caller and nothing he claims about it', async () => {
    const from = '198.51.100.66, 203.0.113.20' // the first is what the caller wrote himself
    const headers = { 'x-seckill-token': 'tok', 'content-type': 'application/json' }
    const body = '{"quantity":1}'
    const answer = await ask(`${url}/api/seckill/ok/phone/submit`, { from, headers, body })
    expect([answer.status, answer.text]).toEqual([202, '{"code":"FROM_THE_APP"}'])
    expect(answer.header('cache-control')).toBe('no-store')
    const [request] = app.of('/ok/')
    expect(request).toMatchObject({ method: 'POST', url: '/api/seckill/ok/phone/submit', body })
    expect(request?.headers).toMatchObject({ ...headers, 'x-forwarded-for': '203.0.113.20' })
  })

  it('without a trusted proxy the header counts for nothing', async () => {
    const direct = await gateway(app.address, '192.0.2.1')
    const all = Array.from({ length: 40 }, (_, i) =>
      ask(`${direct}/api/seckill/spoof/phone/submit`, { from: `203.0.113.${i}` }),
    )
    const passed = (await Promise.all(all)).filter((answer) => answer.status === 202).length
    expect(passed).toBeLessThan(40)
    const addresses = app.of('/spoof/').map((request) => request.headers['x-forwarded-for'])
    expect(new Set(addresses)).toEqual(new Set(['127.0.0.1']))
  })

  it("the app's own 429 and 503 pass untouched", async () => {
    const own = { from: '203.0.113.21' }
    const busy = await ask(`${url}/api/seckill/busy/phone/submit`, own)
    expect([busy.status, busy.text, busy.header('retry-after')]).toEqual([
      503,
      '{"code":"FROM_THE_APP"}',
      '7',
    ])
    const limited = await ask(`${url}/api/seckill/limited/phone/submit`, own)
    expect([limited.status, limited.header('retry-after')]).toEqual([429, '9'])
    expect(limited.header('cache-control')).toBe('no-store')
  })

  it('F9 gives up on a slow app after 2 s, in our words, and asks nobody twice', async () => {
    const spare = await upstream()
    const two = await gateway(`${app.address}; server ${spare.address}`)
    const answer = await ask(`${two}/api/seckill/slow/phone/submit`, { from: '203.0.113.22' })
    expectOurs(answer, 503, UNAVAILABLE)
    expect(answer.tookMs).toBeGreaterThan(1_900)
    expect(answer.tookMs).toBeLessThan(2_900)
    await sleep(1_500)
    expect(app.of('/slow/').length + spare.of('/slow/').length).toBe(1)
  })

  it('F9 a kept connection that breaks under a click is not tried again', async () => {
    const only = await upstream()
    const front = await gateway(only.address)
    for (let i = 0; i < 3; i++) await ask(`${front}/api/seckill/kept/phone/submit`)
    expect(only.connections()).toBe(1) // kept
    const answer = await ask(`${front}/api/seckill/hangup/phone/submit`)
    expectOurs(answer, 503, UNAVAILABLE)
    await sleep(300)
    expect(only.of('/hangup/').length).toBe(1)
    expect(only.connections()).toBe(1)
  })

  it('F9 of two processes one is dead: its clicks are told so, its results come from the other', async () => {
    const front = await gateway(`${app.address}; server 127.0.0.1:${await freePort()}`)
    const statuses: number[] = []
    for (let i = 0; i < 8; i++) {
      const click = await ask(`${front}/api/seckill/half/phone/submit`, { from: `203.0.113.${i}` })
      statuses.push(click.status)
      if (click.status !== 202) expectOurs(click, 503, UNAVAILABLE)
    }
    for (let i = 0; i < 8; i++) {
      const result = await ask(`${front}/api/seckill/half/phone/result`, { method: 'GET' })
      expect(result.status).toBe(202)
    }
    expect(new Set(statuses)).toEqual(new Set([202, 503]))
    const clicks = app.of('/half/phone/submit').length
    expect(clicks).toBe(statuses.filter((status) => status === 202).length)
  })

  it('a dead app is 503 in our words at once, on every route of the sale', async () => {
    const front = await gateway(`127.0.0.1:${await freePort()}`)
    for (const path of ['a/phone/submit', 'a/token', 'a/phone/result']) {
      const answer = await ask(`${front}/api/seckill/${path}`)
      expectOurs(answer, 503, UNAVAILABLE)
      expect(answer.tookMs).toBeLessThan(1_000)
    }
    const shop = await ask(`${front}/cart`)
    expect([shop.status, shop.header('content-type')]).toEqual([502, 'text/html'])
  })

  it('a body over 4 KiB does not reach the app', async () => {
    const body = 'x'.repeat(5_000)
    const answer = await ask(`${url}/api/seckill/big/phone/submit`, { from: '203.0.113.23', body })
    expectOurs(answer, 413, { code: 'SECKILL_TOO_LARGE' })
    expect(app.of('/big/')).toEqual([])
    expect((await ask(`${url}/upload`, { body })).status).toBe(202)
  })

  it('F8 the page may be kept for five minutes, the API not at all', async () => {
    const page = await ask(`${url}/sale/index.html`, { method: 'GET' })
    expect([page.status, page.text, page.header('cache-control')]).toEqual([
      200,
      '<title>sale</title>',
      'public, max-age=300',
    ])
    const missing = await ask(`${url}/sale/none.html`, { method: 'GET' })
    expect([missing.status, missing.header('cache-control')]).toEqual([404, null])
    const token = await ask(`${url}/api/seckill/a/token`)
    expect(token.header('cache-control')).toBe('no-store') // though the app said otherwise
    expect((await ask(`${url}/cart`)).header('cache-control')).toBe('private')
  })
})

describe('the reference nginx in front of the Express example', () => {
  it('F9 sells through it, and a crowd from one address does not reach the stock', async () => {
    const redis = await freshRedis()
    closers.push(() => redis.destroy())
    const database = await freshDatabase('mariadb')
    closers.push(() => database.destroy())
    const { address } = database
    if (address.kind === 'sqlite') throw new Error('not for SQLite')
    const { user, password, host, port, database: name } = address
    const env = {
      REDIS_URL: `redis://${redis.server.host}:${redis.server.port}`,
      DB_URL: `mysql://${user}:${password}@${host}:${port}/${name}`,
      TOKEN_KEY: randomBytes(32).toString('base64'),
      PORT: String(await freePort()),
    }
    const operator = openShop(env)
    closers.push(() => operator.close())
    await operator.migrate()
    const file = new URL('../../examples/express/server.ts', import.meta.url)
    const child = await spawnNode(file, { env })
    closers.push(() => child.stop())
    await child.line(/^listening on/)
    const front = await gateway(`127.0.0.1:${env.PORT}`)

    await operator.activities.save(demoActivity('sale'))
    expect((await operator.sale.warmUp('sale', AUDIT)).status).toBe('warmed')
    await operator.sale.control('sale', 'open', AUDIT)

    const api = `${front}/api/seckill/sale`
    const click = async (who: string, from: string) => {
      const session = { 'x-demo-user': who }
      const { token } = JSON.parse((await ask(`${api}/token`, { from, headers: session })).text)
      const headers = { ...session, 'x-seckill-token': token, 'content-type': 'application/json' }
      const answer = await ask(`${api}/phone/submit`, { from, headers, body: '{}' })
      expect(answer.header('cache-control')).toBe('no-store')
      return { status: answer.status, ...JSON.parse(answer.text) }
    }
    const ann = await click('ann', '203.0.113.30')
    expect([ann.status, ann.code]).toEqual([202, 'SECKILL_QUEUED'])
    await until('she has her order', async () => {
      const result = await ask(`${api}/phone/result`, {
        method: 'GET',
        headers: { 'x-demo-user': 'ann' },
      })
      const { code, orderNo } = JSON.parse(result.text)
      return code === 'SECKILL_CONFIRMED' && orderNo === ann.orderNo
    })

    const crowd = await Promise.all(
      Array.from({ length: 40 }, (_, i) => click(`u${i}`, '203.0.113.31')),
    )
    const queued = crowd.filter(({ code }) => code === 'SECKILL_QUEUED').length
    const refused = crowd.filter(({ code }) => code === 'SECKILL_RATE_LIMIT').length
    expect(queued + refused).toBe(40)
    expect(refused).toBeGreaterThan(0)
    const numbers = await operator.sale.stock.numbers({ activityId: 'sale', skuId: 'phone' })
    expect(numbers.total - numbers.available).toBe(1 + queued)
  })
})
