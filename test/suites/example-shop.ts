import { createHmac, randomBytes } from 'node:crypto'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Activity } from 'flash-sale-kit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { demoActivity } from '../../examples/express/operate.js'
import { openShop } from '../../examples/express/server.js'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { freePort, until } from '../harness/net.js'
import type { RunningProcess } from '../harness/process.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { spawnNode } from '../harness/spawn-node.js'

const AUDIT = { actor: 'test', reason: 'test of the examples' }
const CHANNEL_KEY = 'what the channel signs with'
const SECRET_STREET = 'Secret Street 7'

interface Answer {
  readonly status: number
  readonly code: string
  readonly body: { readonly orderNo?: string; readonly [detail: string]: unknown }
  readonly headers: Headers
}

/** Both examples are the same shop to a buyer, so both pass the same tests, each as a process on real servers. */
export function exampleShop(o: {
  readonly file: URL
  readonly database: 'mariadb' | 'postgres'
  /** The example keeps orders of its own in the same commit. */
  readonly hasShopTable: boolean
  readonly takesPayments: boolean
}): void {
  let redis: FreshRedis
  let database: FreshDatabase
  let operator: ReturnType<typeof openShop>
  let child: RunningProcess
  let env: Record<string, string>
  let url: string

  beforeAll(async () => {
    redis = await freshRedis()
    database = await freshDatabase(o.database)
    const { address } = database
    if (address.kind === 'sqlite') throw new Error('not for SQLite')
    const { user, password, host, port, database: name } = address
    const protocol = o.database === 'mariadb' ? 'mysql' : 'postgres'
    env = {
      REDIS_URL: `redis://${redis.server.host}:${redis.server.port}`,
      DB_URL: `${protocol}://${user}:${password}@${host}:${port}/${name}`,
      TOKEN_KEY: randomBytes(32).toString('base64'),
      CHANNEL_KEY: CHANNEL_KEY,
    }
    operator = openShop(env)
    await operator.migrate()
    await startChild()
  })
  afterAll(async () => {
    await child?.stop()
    await operator?.close()
    await database?.destroy()
    await redis?.destroy()
  })

  async function startChild(): Promise<void> {
    const port = String(await freePort())
    child = await spawnNode(o.file, { env: { ...env, PORT: port } })
    await child.line(/^listening on/)
    url = `http://127.0.0.1:${port}/api/seckill`
  }

  /** An activity of its own for each test, open unless told otherwise. */
  async function onSale(activityId: string, terms: Partial<Activity> = {}, units = 100) {
    const activity = { ...demoActivity(activityId), ...terms }
    const skus = activity.skus.map((sku) => ({ ...sku, units }))
    await operator.activities.save({ ...activity, skus })
    expect((await operator.sale.warmUp(activityId, AUDIT)).status).toBe('warmed')
    await operator.sale.control(activityId, 'open', AUDIT)
  }

  async function ask(path: string, user: string | null, init: RequestInit = {}): Promise<Answer> {
    const res = await fetch(`${url}/${path}`, {
      method: 'POST',
      ...init,
      headers: { ...(user === null ? {} : { 'x-demo-user': user }), ...init.headers },
    })
    const text = await res.text()
    const body = text === '' ? {} : JSON.parse(text)
    return { status: res.status, code: body.code, body, headers: res.headers }
  }
  const tokenOf = async (activityId: string, user: string) =>
    String((await ask(`${activityId}/token`, user)).body['token'])
  const submit = (activityId: string, user: string | null, token: string, body: unknown = {}) =>
    ask(`${activityId}/phone/submit`, user, {
      headers: { 'content-type': 'application/json', 'x-seckill-token': token },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
  const result = (activityId: string, user: string) =>
    ask(`${activityId}/phone/result`, user, { method: 'GET' })
  const buy = async (activityId: string, user: string, body?: unknown) =>
    submit(activityId, user, await tokenOf(activityId, user), body)
  const confirmed = (activityId: string, user: string) =>
    until(`${user} has an order`, async () => {
      return (await result(activityId, user)).code === 'SECKILL_CONFIRMED'
    })

  it('F6 Q1 sells: queued, then confirmed once the database has it; a repeated click is the same order', async () => {
    await onSale('buy')
    const token = await tokenOf('buy', 'ann')
    const payload = { address: SECRET_STREET }
    const first = await submit('buy', 'ann', token, { quantity: 1, payload, userId: 'mallory' })
    expect([first.status, first.code]).toEqual([202, 'SECKILL_QUEUED'])
    expect(first.headers.get('cache-control')).toBe('no-store')
    const { orderNo } = first.body
    await confirmed('buy', 'ann')
    expect((await result('buy', 'ann')).body.orderNo).toBe(orderNo)
    expect((await result('buy', 'mallory')).code).toBe('SECKILL_NO_ORDER')

    const again = await submit('buy', 'ann', token, { quantity: 1, payload })
    expect([again.code, again.body.orderNo, again.body['replayed']]).toEqual([
      'SECKILL_QUEUED',
      orderNo,
      true,
    ])
    expect(await operator.sale.stock.numbers({ activityId: 'buy', skuId: 'phone' })).toMatchObject({
      available: 99,
      frozen: 1,
    })
    if (!o.hasShopTable) return
    const [row] = await database.knex('shop_order').where('buyer', 'ann')
    expect(row.order_no).toBe(orderNo)
    expect(Number(row.amount_minor)).toBe(9_900)
    expect(JSON.parse(row.address)).toEqual(payload)
  })

  if (o.takesPayments)
    it('P1 a confirmed order is paid by the channel’s signed callback, once, and by no other', async () => {
      await onSale('pay')
      const orderNo = String((await buy('pay', 'ann')).body.orderNo)
      await confirmed('pay', 'ann')
      const pay = (path: string, user: string, body = '', signature = '') =>
        fetch(url.replace('seckill', `pay/${path}`), {
          method: 'POST',
          body,
          headers: { 'x-demo-user': user, 'x-channel-signature': signature },
        })
      expect((await pay(`orders/${orderNo}`, 'mallory')).status).toBe(409)
      const made = await pay(`orders/${orderNo}`, 'ann')
      expect(made.status).toBe(201)
      const { payment } = (await made.json()) as { payment: { paymentId: string } }
      const { paymentId } = payment
      const notice = { paymentId, tradeNo: 't1', amountMinor: 9_900, currency: 'CNY' }
      const text = JSON.stringify(notice)
      expect((await pay('callback', 'mallory', text, 'forged')).status).toBe(503)
      expect((await result('pay', 'ann')).code).toBe('SECKILL_CONFIRMED')
      const signature = createHmac('sha256', CHANNEL_KEY).update(text).digest('base64url')
      for (let i = 0; i < 2; i++)
        expect((await pay('callback', 'channel', text, signature)).status).toBe(200)
      expect((await result('pay', 'ann')).code).toBe('SECKILL_PAID')
      const sold = await operator.sale.stock.numbers({ activityId: 'pay', skuId: 'phone' })
      expect(sold).toMatchObject({ available: 99, frozen: 0, sold: 1 })
    })

  it('F6 V2 sells what there is, to as many as there is for, and tells the others', async () => {
    await onSale('few', {}, 5)
    const users = Array.from({ length: 40 }, (_, i) => `u${i}`)
    const answers = await Promise.all(users.map((user) => buy('few', user)))
    const codes = answers.map((a) => a.code)
    expect(codes.filter((code) => code === 'SECKILL_QUEUED').length).toBe(5)
    expect(codes.filter((code) => code === 'SECKILL_SOLD_OUT').length).toBe(35)
    expect(new Set(answers.map((a) => a.status))).toEqual(new Set([202, 409]))
    for (const [i, code] of codes.entries())
      if (code === 'SECKILL_QUEUED') await confirmed('few', `u${i}`)
    const rows = await database.knex('seckill_order').where('activity_id', 'few')
    expect(rows.map((row) => row.status)).toEqual(Array(5).fill('CONFIRMED'))
  })

  it('F6 refuses each bad request in its own way, and takes nothing for it', async () => {
    await onSale('bad')
    const mine = await tokenOf('bad', 'ann')
    const bobs = await tokenOf('bad', 'bob')
    const json = { 'content-type': 'application/json', 'x-seckill-token': mine }
    const ofPhone = (init: RequestInit) => ask('bad/phone/submit', 'ann', init)
    const table: readonly (readonly [number, string, Promise<Answer>])[] = [
      [401, 'SECKILL_NOT_SIGNED_IN', submit('bad', null, mine)],
      [403, 'SECKILL_TOKEN_MISSING', submit('bad', 'ann', '')],
      [403, 'SECKILL_TOKEN_INVALID', submit('bad', 'ann', 'x'.repeat(93))],
      [403, 'SECKILL_TOKEN_INVALID', submit('bad', 'ann', mine.slice(0, -1))],
      [403, 'SECKILL_TOKEN_NOT_YOURS', submit('bad', 'ann', bobs)],
      [400, 'SECKILL_BAD_REQUEST', submit('bad', 'ann', mine, '{"quantity":')],
      [400, 'SECKILL_BAD_REQUEST', submit('bad', 'ann', mine, { quantity: '1' })],
      [400, 'SECKILL_BAD_REQUEST', submit('bad', 'ann', mine, { quantity: -1 })],
      [400, 'SECKILL_BAD_REQUEST', submit('bad', 'ann', mine, { payload: 'x'.repeat(1_100) })],
      [413, 'SECKILL_TOO_LARGE', submit('bad', 'ann', mine, { payload: 'x'.repeat(5_000) })],
      [
        415,
        'SECKILL_NOT_JSON',
        ofPhone({ headers: { ...json, 'content-type': 'text/plain' }, body: '{}' }),
      ],
      [405, 'SECKILL_METHOD_NOT_ALLOWED', ofPhone({ method: 'PUT', headers: json, body: '{}' })],
      [409, 'SECKILL_OVER_LIMIT', submit('bad', 'ann', mine, { quantity: 2 })],
      [404, 'SECKILL_NOT_FOUND', ask('bad/tablet/submit', 'ann', { headers: json, body: '{}' })],
      [404, 'SECKILL_NOT_FOUND', ask('nothing/phone/submit', 'ann', { headers: json, body: '{}' })],
      [404, 'SECKILL_NOT_FOUND', ask('nothing/token', 'ann')],
      [
        400,
        'SECKILL_BAD_REQUEST',
        ask('b%7Cad/phone/submit', 'ann', { headers: json, body: '{}' }),
      ],
      [400, 'SECKILL_BAD_REQUEST', ask(`${'x'.repeat(10_000)}/token`, 'ann')],
      [404, 'SECKILL_NO_ORDER', result('bad', 'ann')],
    ]
    for (const [status, code, answer] of table) {
      const { status: got, code: word, headers } = await answer
      expect([got, word, headers.get('cache-control')]).toEqual([status, code, 'no-store'])
    }
    const numbers = await operator.sale.stock.numbers({ activityId: 'bad', skuId: 'phone' })
    expect(numbers).toMatchObject({ available: 100, frozen: 0 })
  })

  it('F1 refuses before the sale opens, after it has ended, and while it is stopped', async () => {
    const opensAt = Date.now() + 3_000_000
    await onSale('early', { opensAt })
    const early = await buy('early', 'ann')
    expect([early.status, early.code, early.body['opensAt']]).toEqual([
      403,
      'SECKILL_NOT_OPEN',
      opensAt,
    ])

    await onSale('stopped')
    const token = await tokenOf('stopped', 'ann')
    await operator.sale.control('stopped', 'stopped', AUDIT)
    const stopped = await submit('stopped', 'ann', token)
    expect([stopped.status, stopped.code]).toEqual([403, 'SECKILL_STOPPED'])
    await operator.sale.control('stopped', 'open', AUDIT)
    await until('the process has heard it', async () => {
      return (await submit('stopped', 'ann', token)).status === 202
    })

    await onSale('late', { opensAt: Date.now() - 20_000, endsAt: Date.now() + 500 })
    const late = await tokenOf('late', 'ann')
    await until('the sale has ended', async () => {
      return (await submit('late', 'bob', await tokenOf('late', 'bob'))).code === 'SECKILL_ENDED'
    })
    expect((await submit('late', 'ann', late)).status).toBe(403)
  })

  it('SIGTERM under load ends with 0, and every buyer who was told "queued" has his order after a restart', async () => {
    await onSale('stop', {}, 1_000)
    const queued: string[] = []
    let loading = true
    const clients = Array.from({ length: 16 }, async (_, client) => {
      for (let i = 0; loading; i++) {
        try {
          const answer = await buy('stop', `c${client}-${i}`)
          if (answer.code === 'SECKILL_QUEUED') queued.push(String(answer.body.orderNo))
        } catch {
          return // the server is gone
        }
      }
    })
    await until('orders come in', () => queued.length >= 100)
    await child.kill('SIGTERM')
    loading = false
    await Promise.all(clients)
    expect(await child.exited).toEqual({ code: 0, signal: null })
    expect(child.output()).toMatch(/stopped/)

    await startChild()
    const ref = { activityId: 'stop', skuId: 'phone' }
    await until('nothing is pending', async () => {
      const { pending, owed } = await operator.sale.stock.numbers(ref)
      return pending === 0 && owed === 0
    })
    const rows = await database.knex('seckill_order').where('activity_id', 'stop')
    const confirmedNumbers = new Set(
      rows.filter((row) => row.status === 'CONFIRMED').map((row) => row.order_no as string),
    )
    expect(queued.filter((orderNo) => !confirmedNumbers.has(orderNo))).toEqual([])
    const numbers = await operator.sale.stock.numbers(ref)
    expect(numbers).toMatchObject({ total: 1_000, over: 0, frozen: confirmedNumbers.size })
    if (!o.hasShopTable) return
    const shops: readonly string[] = await database.knex('shop_order').pluck('order_no')
    expect([...confirmedNumbers].filter((orderNo) => !shops.includes(orderNo))).toEqual([])
  })

  it('SIGTERM: a request on a connection that was kept is answered, and told that it was the last', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const get = () =>
      new Promise<[status: number | undefined, connection: string | undefined, kept: boolean]>(
        (resolve, reject) => {
          const req = request(`${url}/result?activityId=none&skuId=none`, { agent }, (res) => {
            res.resume().once('end', () => {
              resolve([res.statusCode, res.headers.connection, req.reusedSocket])
            })
          })
          req.once('error', reject).end()
        },
      )
    const [status] = await get()
    const ended = child.kill('SIGTERM')
    await sleep(100) // it has begun to stop
    expect(await get()).toEqual([status, 'close', true])
    await ended
    expect(await child.exited).toEqual({ code: 0, signal: null })
    agent.destroy()
    await startChild()
  })

  describe('without Redis', () => {
    it('says that it does not know, and logs neither token nor payload', async () => {
      await onSale('dark')
      const token = await tokenOf('dark', 'ann')
      await operator.close()
      await redis.server.kill('SIGKILL')
      const answer = await submit('dark', 'ann', token, { payload: { address: SECRET_STREET } })
      expect([202, 503]).toContain(answer.status)
      expect(['SECKILL_UNKNOWN', 'SECKILL_UNAVAILABLE']).toContain(answer.code)
      expect((await result('dark', 'ann')).code).toBe('SECKILL_NO_ORDER')
      expect(child.output()).toContain('redis')
      const [, body = '', mac = ''] = /^(.*)\.([^.]+)$/.exec(token) ?? []
      for (const secret of [SECRET_STREET, mac, body, env['TOKEN_KEY'] as string])
        expect(child.output()).not.toContain(secret)
      await redis.server.restart()
    })
  })
}
