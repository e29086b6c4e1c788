/**
 * A shop on Express that sells through the whole pipeline:
 *
 *   REDIS_URL=redis://127.0.0.1:6379 DB_URL=mysql://app:app@127.0.0.1/app \
 *   TOKEN_KEY=$(openssl rand -base64 32) CHANNEL_KEY=$(openssl rand -base64 32) PORT=8080 \
 *   npx tsx examples/express/server.ts
 *
 * Put an activity on sale with examples/express/operate.ts; there are no routes for operators.
 */
import { randomUUID } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { pathToFileURL } from 'node:url'
import express from 'express'
import {
  FlashSale,
  MemoryQueue,
  ReconcileRunner,
  TokenIssuer,
  TriangleReconciler,
} from 'flash-sale-kit'
import { seckillErrors, seckillExpress } from 'flash-sale-kit/express'
import {
  KnexActivityControl,
  KnexActivityStore,
  KnexFences,
  KnexLeases,
  KnexOrderBook,
  KnexPaymentBook,
  type Order,
} from 'flash-sale-kit/knex'
import { Redis } from 'ioredis'
import knexFactory, { type Knex } from 'knex'
import { openPayments, paymentRoutes } from './payments.js'

type Env = Readonly<Record<string, string | undefined>>

/**
 * STAND-IN. A real shop asks its session store here. Whoever can set the header is that user, which is right for a demo
 * and for nothing else.
 */
function signedInUser(req: express.Request) {
  const userId = req.get('x-demo-user')
  return userId ? { userId, ip: req.ip ?? '' } : null
}

/** The shop's own order table, written in the same commit as the library's. */
export async function insertShopOrders(
  trx: Knex.Transaction,
  orders: readonly Order[],
): Promise<void> {
  const rows = orders.map((o) => ({
    order_no: o.orderNo,
    buyer: o.userId,
    amount_minor: o.amountMinor,
    currency: o.currency,
    address: JSON.stringify(o.payload ?? null),
  }))
  await trx('shop_order').insert(rows)
}

export async function migrate(knex: Knex): Promise<void> {
  await KnexOrderBook.migrate(knex)
  await knex.raw(`CREATE TABLE IF NOT EXISTS shop_order (
    order_no VARCHAR(64) PRIMARY KEY, buyer VARCHAR(64) NOT NULL, amount_minor BIGINT NOT NULL,
    currency CHAR(3) NOT NULL, address TEXT NOT NULL)`)
}

/** Connects to what the environment names; the shop, its server and operate.ts use the same parts. */
export function openShop(env: Env) {
  const dbUrl = required(env, 'DB_URL')
  const knex = knexFactory({
    client: dbUrl.startsWith('postgres') ? 'pg' : 'mysql2',
    connection: dbUrl,
    pool: { min: 0, max: 10 },
  })
  const redis = new Redis(required(env, 'REDIS_URL'))
  redis.on('error', (error) => console.error('redis', error.message)) // commands reject for themselves
  const activities = new KnexActivityStore({ knex })
  const control = new KnexActivityControl({ knex })
  const queue = new MemoryQueue({ onDead: (batch, why) => sale.setAside(batch, why) })
  const orders = new KnexOrderBook({ knex, hooks: { onConfirm: insertShopOrders } })
  const events = {
    onAlert: (code: string, detail: object) => console.error('alert', code, detail),
  }
  const sale = new FlashSale({
    redis,
    queue,
    activities,
    control,
    fences: new KnexFences({ knex }),
    orders,
    tokens: new TokenIssuer({
      keys: [{ kid: 'k1', secret: Buffer.from(required(env, 'TOKEN_KEY'), 'base64') }],
    }),
    events,
  })
  const book = new KnexPaymentBook({ knex })
  const payments = openPayments({ book, orders, ledger: sale.stock, events })
  const leases = new KnexLeases({ knex })
  const reconciler = new ReconcileRunner({
    reconciler: new TriangleReconciler({
      ...{ stock: sale.stock, orders, activities, control, payments: book },
    }),
    activities,
    leases,
    events,
  })
  const background = [payments.keeper(), reconciler]
  const close = async () => {
    await Promise.all(background.map((one) => one.stop()))
    await sale.stop({ drainMs: 5_000 })
    await knex.destroy()
    redis.disconnect()
  }
  return {
    sale,
    payments,
    leases,
    background,
    queue,
    activities,
    migrate: () => migrate(knex),
    close,
  }
}

export async function startServer(env: Env) {
  const shop = openShop(env)
  const { sale, queue } = shop
  await shop.migrate()
  sale.worker({ ordersPerSecond: Number(env['ORDERS_PER_SECOND'] ?? 800) })
  sale.relay()
  sale.guardian({ leases: shop.leases })
  await sale.start()
  for (const one of shop.background) await one.start()

  const app = express().disable('x-powered-by')
  app.set('trust proxy', 'loopback') // only a gateway on this machine is believed about whose request it is
  const onError = (error: unknown) => console.error('seckill', error)
  const channelKey = env['CHANNEL_KEY'] ?? randomUUID() // without one no callback is believed
  app.use('/api/pay', paymentRoutes(shop.payments, { signedInUser, channelKey }))
  app.use(express.json({ limit: '4kb' }))
  app.use('/api/seckill', seckillExpress(sale, { buyer: signedInUser, onError }), seckillErrors)

  const server = app.listen(Number(env['PORT'] ?? 8080), env['HOST'] ?? '127.0.0.1')
  await new Promise<void>((resolve, reject) =>
    server.once('listening', resolve).once('error', reject),
  )

  /** No new connections, then the requests begun, then the queue within this process, then everything else. */
  const stop = async () => {
    server.maxRequestsPerSocket = 1 // answers say `Connection: close` from now on
    // By then a gateway that was told sends nothing more; closing at once, a request on its way would meet a closed door.
    await new Promise((resolve) => setTimeout(resolve, 500))
    const closed = new Promise((resolve) => server.close(resolve))
    setTimeout(() => server.closeAllConnections(), 4_000).unref() // longer than an answer may take
    await closed
    await sale.stock.stop()
    // A memory queue is gone with its process. What is left in it after 5 s stays owed in Redis, for the next start.
    const patience = Date.now() + 5_000
    while ((await queue.lag()).messages > 0 && Date.now() < patience)
      await new Promise((resolve) => setTimeout(resolve, 20))
    await shop.close()
  }
  return { port: (server.address() as AddressInfo).port, sale, stop }
}

function required(env: Env, name: string): string {
  const value = env[name]
  if (!value) throw new Error(`set ${name}; see the first lines of examples/express/server.ts`)
  return value
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { port, stop } = await startServer(process.env)
  console.log(`listening on ${port}`)
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.once(signal, () => void stop().then(() => console.log('stopped')))
}
