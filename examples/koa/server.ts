/**
 * A shop on Koa with a pipeline of its own (wiring.ts):
 *
 *   REDIS_URL=redis://127.0.0.1:6379 DB_URL=postgres://app:app@127.0.0.1/app \
 *   TOKEN_KEY=$(openssl rand -base64 32) PORT=8081 npx tsx examples/koa/server.ts
 *
 * It sells activities that examples/express/operate.ts has warmed up and opened in the same Redis and database.
 */
import type { AddressInfo } from 'node:net'
import { pathToFileURL } from 'node:url'
import { KnexOrderBook } from 'flash-sale-kit/knex'
import { seckillKoa } from 'flash-sale-kit/koa'
import { Redis } from 'ioredis'
import knexFactory from 'knex'
import Koa from 'koa'
import { wire } from './wiring.js'

/**
 * STAND-IN. A real shop asks its session store here. Whoever can set the header is that user, which is right for a demo
 * and for nothing else.
 */
function signedInUser(ctx: Koa.Context) {
  const userId = ctx.get('x-demo-user')
  return userId ? { userId, ip: ctx.ip } : null
}

export async function startServer(env: Readonly<Record<string, string | undefined>>) {
  const { REDIS_URL, DB_URL, TOKEN_KEY, PORT = '8081', HOST = '127.0.0.1' } = env
  if (!REDIS_URL || !DB_URL || !TOKEN_KEY) throw new Error('set REDIS_URL, DB_URL and TOKEN_KEY')
  const redis = new Redis(REDIS_URL)
  redis.on('error', (error) => console.error('redis', error.message)) // commands reject for themselves
  const client = DB_URL.startsWith('postgres') ? 'pg' : 'mysql2'
  const knex = knexFactory({ client, connection: DB_URL, pool: { min: 0, max: 10 } })
  await KnexOrderBook.migrate(knex)
  const pipeline = wire({ redis, knex, tokenKey: Buffer.from(TOKEN_KEY, 'base64') })
  pipeline.start()

  const app = new Koa()
  app.on('error', (error) => console.error('koa', error))
  const onError = (error: unknown) => console.error('seckill', error)
  app.use(seckillKoa(pipeline.sale, { buyer: signedInUser, onError }))

  const server = app.listen(Number(PORT), HOST)
  await new Promise<void>((resolve, reject) => {
    server.once('listening', resolve).once('error', reject)
  })
  const stop = async () => {
    server.maxRequestsPerSocket = 1 // answers say `Connection: close` from now on
    // By then a gateway that was told sends nothing more; closing at once, a request on its way would meet a closed door.
    await new Promise((resolve) => setTimeout(resolve, 500))
    setTimeout(() => server.closeAllConnections(), 4_000).unref() // longer than an answer may take
    await new Promise((resolve) => server.close(resolve))
    await pipeline.stop()
    await knex.destroy()
    redis.disconnect()
  }
  return { port: (server.address() as AddressInfo).port, stop }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { port, stop } = await startServer(process.env)
  console.log(`listening on ${port}`)
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.once(signal, () => void stop().then(() => console.log('stopped')))
}
