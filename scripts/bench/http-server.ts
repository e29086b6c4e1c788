/** A serving process of the http bench; see `CONTESTANTS`. */
import { createServer, type RequestListener } from 'node:http'
import express from 'express'
import { FlashSale, MemoryQueue, TokenIssuer } from 'flash-sale-kit'
import { nodeHandler } from 'flash-sale-kit/http'
import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from 'flash-sale-kit/knex'
import { Redis } from 'ioredis'
import { type DatabaseAddress, openDatabase } from '../../test/harness/databases.js'
import type { Contestant } from './http-stage.js'

interface ServerOptions {
  readonly who: Exclude<Contestant, 'express'>
  readonly port: number
  readonly redisUrl: string
  readonly database: DatabaseAddress
  /** base64 */
  readonly tokenKey: string
}

/** Reads the body, answers 30 bytes: what any handler on node:http costs at least. */
const bare: RequestListener = (req, res) => {
  const chunks: Buffer[] = []
  req.on('data', (chunk: Buffer) => chunks.push(chunk))
  req.on('end', () => {
    const body = Buffer.concat(chunks)
    res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 30 })
    res.end(`{"code":"EMPTY","bytes":${String(body.length).padStart(5)}}`)
  })
}

/** The whole pipeline; the worker that confirms runs in the serving process, as a memory queue needs it. */
async function library(o: ServerOptions, soldOutMs: number): Promise<RequestListener> {
  const knex = openDatabase(o.database, { poolMax: 4 })
  const sale = new FlashSale({
    redis: new Redis(o.redisUrl),
    queue: new MemoryQueue(),
    orders: new KnexOrderBook({ knex }),
    activities: new KnexActivityStore({ knex }),
    control: new KnexActivityControl({ knex }),
    tokens: new TokenIssuer({ keys: [{ kid: 'k1', secret: Buffer.from(o.tokenKey, 'base64') }] }),
    soldOutMs,
    events: { onAlert: (code, detail) => console.error(code, detail) },
  })
  sale.worker({ ordersPerSecond: 2_000 })
  sale.relay()
  await sale.start()
  return nodeHandler(sale, {
    buyer: (req) => ({
      userId: req.headers['x-demo-user'] as string,
      ip: req.socket.remoteAddress ?? '',
    }),
    onError: (error) => console.error(error),
  })
}

function expressEmpty(): RequestListener {
  const app = express().disable('x-powered-by')
  app.use(express.json({ limit: '4kb' }))
  app.post('/api/seckill/:activityId/:skuId/submit', (_req, res) => {
    res.json({ code: 'EMPTY' })
  })
  return app
}

function listenerOf(o: ServerOptions): RequestListener | Promise<RequestListener> {
  switch (o.who) {
    case 'bare':
      return bare
    case 'library':
      return library(o, 250)
    case 'unmarked':
      return library(o, 1)
    case 'expressEmpty':
      return expressEmpty()
    default:
      return o.who satisfies never
  }
}

const options = JSON.parse(process.argv[2] ?? 'null') as ServerOptions
createServer(await listenerOf(options)).listen(options.port, '127.0.0.1', () => {
  console.log('listening')
})
