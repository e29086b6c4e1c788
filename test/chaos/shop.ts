/**
 * A shop in a process of its own, with everything a careful host wires, on the servers that SHOP names (`ShopConfig`). Says
 * `listening <port>` once, and a line `alert <code> <detail>` for each alert.
 *
 * - `POST /click?user=`: a token, and a click with it. `GET /result?user=&orderNo=`
 * - `POST /pay?user=&orderNo=&channel=`: what the buyer needs to pay. `POST /callback`: a channel's word
 */
import './clock.js'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  BackpressureGate,
  eventLoopDelay,
  FlashSale,
  FlashSaleError,
  oldestUnconfirmed,
  type PaymentNotice,
  Payments,
  poolWaits,
  queueLag,
  RateLimiter,
  ReconcileRunner,
  stalledQueue,
  TokenIssuer,
  TriangleReconciler,
} from 'flash-sale-kit'
import { errorToHttp, type HttpAnswer, SeckillRoutes, toHttp } from 'flash-sale-kit/http'
import {
  KnexActivityControl,
  KnexActivityStore,
  KnexFences,
  KnexLeases,
  KnexOrderBook,
  KnexPaymentBook,
} from 'flash-sale-kit/knex'
import { openDatabase } from '../harness/databases.js'
import { flakyQueue } from '../harness/flaky-queue.js'
import { LOOPBACK } from '../harness/net.js'
import { openQueue } from '../harness/queues.js'
import { openRedis, type ShopConfig } from './addresses.js'
import { CHANNELS, channelAt } from './channel-client.js'
import { REF } from './sale.js'

const config = JSON.parse(process.env.SHOP ?? '') as ShopConfig

const knex = openDatabase(config.database, { poolMax: 20 })
const redis = openRedis(config.redis)
const queue = await openQueue(config.queue, redis)
const events = {
  onAlert: (code: string, detail: object) => console.log('alert', code, said(detail)),
}

const orders = new KnexOrderBook({ knex, statementTimeoutMs: config.statementTimeoutMs })
const activities = new KnexActivityStore({ knex })
const control = new KnexActivityControl({ knex })
const book = new KnexPaymentBook({ knex })
const leases = new KnexLeases({ knex })
const sale = new FlashSale({
  ...{ redis, orders, activities, control, events },
  queue: flakyQueue(queue, config.flaky),
  fences: new KnexFences({ knex }),
  tokens: new TokenIssuer({ keys: [{ kid: 'k1', secret: Buffer.alloc(32, 7) }] }),
  limiter: new RateLimiter({
    redis,
    resources: {
      submit: {
        total: { burst: config.submitPerSecond, perSecond: config.submitPerSecond },
        user: { burst: 20, perSecond: 10 },
        ip: { burst: 20, perSecond: 10 },
      },
    },
    localShare: 0.5,
  }),
  backpressure: new BackpressureGate({
    probes: [
      queueLag(queue),
      // Kafka does not know how old its oldest message is.
      config.queue.kind === 'kafka' ? stalledQueue(queue) : oldestUnconfirmed(queue),
      poolWaits(knex.client.pool),
      eventLoopDelay({ high: 1_000, low: 200 }), // a machine of two cores that runs all the servers too
    ],
    onChange: ({ name, state, value }) => console.log('gate', name, state, value),
  }),
  graceMs: 15_000,
  // What was settled while Redis did not hear of it is struck off as soon as this.
  stock: { closeAfterMs: 30_000 },
})
if (config.role !== 'shop') sale.worker({ ordersPerSecond: config.ordersPerSecond })
sale.relay({ everyMs: 500, leaseMs: 2_000 })
sale.guardian({ leases })

const providers = CHANNELS.map((channel) => channelAt(config.channels, channel))
const ledger = sale.stock
const payments = new Payments({ book, orders, ledger, providers, events, callTimeoutMs: 2_000 })
const keeper = payments.keeper({ channelGraceMs: 5_000 })
const reconciler = new ReconcileRunner({
  reconciler: new TriangleReconciler({
    stock: ledger,
    orders,
    activities,
    control,
    payments: book,
  }),
  ...{ activities, leases, events },
  everyMs: 3_000,
})
await sale.start()
await Promise.all([keeper.start(), reconciler.start()])

const routes = new SeckillRoutes(sale, { onError: (error) => console.log('error', String(error)) })

async function click(userId: string): Promise<HttpAnswer> {
  const buyer = { userId, ip: addressOf(userId) }
  const issued = await routes.token({ activityId: REF.activityId, buyer })
  const { token } = issued.body
  return token === undefined ? issued : routes.submit({ ...REF, buyer, token })
}

async function result(userId: string, orderNo: string): Promise<HttpAnswer> {
  return toHttp(await sale.result({ ...REF, userId, orderNo }))
}

async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(req.url ?? '', `http://${LOOPBACK}`)
  const asked = (name: string) => searchParams.get(name) ?? ''
  const answer = ({ http, body }: HttpAnswer) => json(res, http, body)
  switch (pathname) {
    case '/click':
      return answer(await click(asked('user')))
    case '/result':
      return answer(await result(asked('user'), asked('orderNo')))
    case '/pay': {
      const [orderNo, userId, channel] = [asked('orderNo'), asked('user'), asked('channel')]
      return json(res, 200, await payments.create({ orderNo, userId, channel }))
    }
    case '/callback': {
      const { acknowledge } = await payments.notice(JSON.parse(await text(req)) as PaymentNotice)
      return json(res, acknowledge ? 200 : 503, { acknowledge })
    }
    default:
      return json(res, 404, {})
  }
}

/** Unless it was answered already. */
function json(res: ServerResponse, http: number, body: object): void {
  if (!res.headersSent) res.writeHead(http).end(JSON.stringify(body))
}

/** Nobody is kept longer (docs/gateway.md); what was begun takes its course. */
const ANSWER_WITHIN_MS = 3_000
const LATE = errorToHttp(new FlashSaleError('OUTCOME_UNKNOWN', 'late'))

const server = createServer((req, res) => {
  const late = setTimeout(() => json(res, LATE.http, LATE.body), ANSWER_WITHIN_MS)
  serve(req, res)
    .catch((error: unknown) => {
      console.log('error', String(error))
      const { http, body } = errorToHttp(error)
      json(res, http, body)
    })
    .finally(() => clearTimeout(late))
})
server.listen(0, LOOPBACK, () => console.log(`listening ${(server.address() as AddressInfo).port}`))

/** Closing a kept connection at once would meet a request that is on its way. */
const GOODBYE_MS = 500

/** A goodbye on kept connections, no new ones, then the requests begun, then the queue within this process, then everything else. */
process.once('SIGTERM', async () => {
  server.maxRequestsPerSocket = 1
  await sleep(GOODBYE_MS)
  const closed = new Promise((resolve) => server.close(resolve))
  setTimeout(() => server.closeAllConnections(), ANSWER_WITHIN_MS + 1_000).unref()
  await closed
  await sale.stock.stop()
  const patience = performance.now() + 2_000
  const left = async () => {
    const lag = config.queue.kind === 'memory' ? await queue.lag() : { messages: 0 }
    return lag !== 'unknown' && lag.messages > 0
  }
  while ((await left()) && performance.now() < patience) await sleep(20)
  await Promise.all([keeper.stop(), reconciler.stop()])
  await sale.stop({ drainMs: 2_000 })
  await knex.destroy()
  redis.disconnect()
  console.log('stopped')
})

/** An address of each buyer's own. */
function addressOf(userId: string): string {
  const n = Number(userId.replace(/\D/g, '')) % 65_536
  return `10.0.${n >> 8}.${n & 255}`
}

/** One line, errors as their message. */
function said(detail: object): string {
  return JSON.stringify(detail, (_, value) => (value instanceof Error ? String(value) : value))
}
