import { setTimeout as sleep } from 'node:timers/promises'
import knexPackage, { type Knex } from 'knex'
import { afterEach, describe, expect, it } from 'vitest'
import { KnexOrderBook } from '../../src/knex/index.js'
import {
  type FreshDatabase,
  freshDatabase,
  openDatabase,
  type ServerKind,
} from '../harness/databases.js'
import { until } from '../harness/net.js'
import { startMariadb, startMysql, startPostgres } from '../harness/services.js'
import { TcpProxy } from '../harness/tcp-proxy.js'
import { makeKit, tally } from '../suites/order-book/kit.js'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

async function primary(kind: ServerKind) {
  const start = { mariadb: startMariadb, mysql: startMysql, postgres: startPostgres }[kind]
  const server = await start()
  cleanUps.push(() => server.stop())
  return server
}

/** A user without the right to write on a read-only server, as an application has it. */
async function appPool(db: FreshDatabase, port: number, database: string): Promise<Knex> {
  if (db.address.kind === 'sqlite') throw new Error('no server')
  if (db.kind === 'postgres') {
    const knex = openDatabase({ ...db.address, database }, { port, poolMax: 5 })
    cleanUps.push(() => knex.destroy())
    return knex
  }
  const knex = knexPackage({
    client: 'mysql2',
    connection: { host: db.address.host, port, user: 'shop', password: 'shop', database },
    pool: { min: 0, max: 5 },
    log: { warn() {}, error() {}, deprecate() {}, debug() {} },
  })
  cleanUps.push(() => knex.destroy())
  return knex
}

async function makeReadOnly(db: FreshDatabase): Promise<void> {
  if (db.kind !== 'postgres') {
    await db.knex.raw('SET GLOBAL read_only = 1')
    return
  }
  await db.knex.raw('ALTER SYSTEM SET default_transaction_read_only = on')
  await db.knex.raw('SELECT pg_reload_conf()')
  // The postmaster passes the news on to the sessions that are open, in its own time.
  await until('read-only', async () => {
    const { rows } = await db.knex.raw('SHOW default_transaction_read_only')
    return rows[0].default_transaction_read_only === 'on'
  })
  await sleep(200)
}

for (const kind of ['mariadb', 'mysql', 'postgres'] as const)
  describe(`read-only primary on ${kind}`, () => {
    it('C17: writes come back within seconds after a failover, on a pool that was warm and poisoned', async () => {
      const [a, b] = await Promise.all([primary(kind), primary(kind)])
      const [old, next] = [
        await freshDatabase(kind, { server: a }),
        await freshDatabase(kind, { server: b }),
      ]
      // Their servers go with all their databases; a read-only one could not drop one.
      cleanUps.push(
        () => old.knex.destroy(),
        () => next.knex.destroy(),
      )
      const names = [old, next].map((db) => (db.address as { database: string }).database)
      // The same name on both, as after a real failover.
      await next.knex.raw(`CREATE DATABASE ${names[0]}`)
      const after = openDatabase({ ...next.address, database: names[0] } as never)
      cleanUps.push(() => after.destroy())
      for (const knex of [old.knex, after]) await KnexOrderBook.migrate(knex)
      if (kind !== 'postgres')
        for (const knex of [old.knex, after]) {
          await knex.raw("CREATE USER shop@'127.0.0.1' IDENTIFIED BY 'shop'")
          await knex.raw(
            `GRANT SELECT, INSERT, UPDATE, DELETE ON ${names[0]}.* TO shop@'127.0.0.1'`,
          )
        }
      const proxy = await TcpProxy.to(a.port)
      cleanUps.push(() => proxy.close())
      const knex = await appPool(old, proxy.port, names[0] as string)
      const hookRuns: number[] = []
      const book = new KnexOrderBook({
        knex,
        maxAttempts: 3,
        hooks: {
          async onConfirm(_, orders) {
            hookRuns.push(orders.length)
          },
        },
      })
      const kit = makeKit(old)
      const sale = await kit.sale({ units: 100 })
      await new KnexOrderBook({ knex: after }).prepare(sale.activity)
      await Promise.all(Array.from({ length: 5 }, () => book.confirm(sale.reservations(1))))

      await makeReadOnly(old)
      hookRuns.length = 0
      const orders = Array.from({ length: 20 }, () => sale.reservations(2))
      await expect(book.confirm(orders[0] ?? [])).rejects.toMatchObject({ code: 'DB_UNAVAILABLE' })
      expect(hookRuns, 'nothing is bisected, no hook is bothered').toEqual([])
      expect(await old.knex('seckill_order').where({ status: 'CLOSED' })).toEqual([])

      proxy.retarget(b.port)
      const startedAt = Date.now()
      const settle = async (batch: (typeof orders)[number]): Promise<unknown> => {
        try {
          return await book.confirm(batch)
        } catch (error) {
          expect(error).toMatchObject({ code: 'DB_UNAVAILABLE' }) // the queue delivers again
          return settle(batch)
        }
      }
      const verdicts = (await Promise.all(orders.map(settle))) as { status: string }[][]
      expect(Date.now() - startedAt).toBeLessThan(5_000)
      expect(tally(verdicts.flat())).toEqual({ confirmed: 40 })
      expect(await new KnexOrderBook({ knex: after }).numbers(sale.ref())).toMatchObject({
        live: 40,
      })
      expect(await after('seckill_manual_task')).toEqual([])
    })

    it('C17: a read-only error out of a hook is the server’s, not the order’s', async () => {
      const db = await freshDatabase(kind)
      cleanUps.push(db.destroy)
      await KnexOrderBook.migrate(db.knex)
      const kit = makeKit(db)
      const sale = await kit.sale()
      const sql =
        kind !== 'postgres'
          ? "SIGNAL SQLSTATE '25006' SET MYSQL_ERRNO = 1792"
          : "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '25006'; END $$"
      const book = kit.book({
        maxAttempts: 2,
        hooks: {
          async onConfirm(trx) {
            await trx.raw(sql).catch((cause) => {
              throw new Error('could not save the address', { cause })
            })
          },
        },
      })
      await expect(book.confirm(sale.reservations(4))).rejects.toMatchObject({
        code: 'DB_UNAVAILABLE',
      })
      expect(await kit.rows(sale)).toEqual([])
      expect(await kit.count('seckill_manual_task')).toBe(0)
    })
  })
