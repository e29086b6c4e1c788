import { setTimeout as sleep } from 'node:timers/promises'
import type { Knex } from 'knex'
import { describe, expect, it } from 'vitest'
import { KnexActivityControl, KnexOrderBook } from '../../src/knex/index.js'
import { openDatabase } from '../harness/databases.js'
import { TcpProxy } from '../harness/tcp-proxy.js'
import { inParallel, type Kit, type Sale, tally, useKit } from '../suites/order-book/kit.js'

const MYSQL = {
  deadlock: "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213",
  serialization: "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1020",
  lock: "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205",
}
const RAISE = {
  mariadb: MYSQL,
  mysql: MYSQL,
  postgres: {
    deadlock: "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40P01'; END $$",
    serialization: "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END $$",
    lock: "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '55P03'; END $$",
  },
} as const

/** Holds the lock on a stock row from a connection of its own. */
async function holdStockRow(kit: Kit, sale: Sale, ms: number): Promise<void> {
  const other = openDatabase(kit.db.address, { poolMax: 1 })
  await other.transaction(async (trx) => {
    await trx('seckill_stock').where({ activity_id: sale.activityId }).update({ updated_at: 1 })
    await sleep(ms)
  })
  await other.destroy()
}

/** A book whose connections run through a proxy. */
async function throughProxy(kit: Kit, o: { readonly maxAttempts?: number } = {}) {
  if (kit.db.address.kind === 'sqlite') throw new Error('SQLite has no network')
  const proxy = await TcpProxy.to(kit.db.address.port)
  const knex = openDatabase(kit.db.address, { port: proxy.port, poolMax: 3 })
  return {
    proxy,
    knex,
    book: new KnexOrderBook({ knex, statementTimeoutMs: 1_000, acquireTimeoutMs: 2_000, ...o }),
    async [Symbol.asyncDispose]() {
      proxy.pass()
      await knex.destroy()
      await proxy.close()
    },
  }
}

for (const kind of ['mariadb', 'mysql', 'postgres'] as const)
  describe(`trouble in the middle of a unit, on ${kind}`, () => {
    const kit = useKit(kind, { poolMax: 32 })

    it('C16: orders over two SKUs in opposite order come through without losing half', async () => {
      const sale = await kit.sale({ skus: 2, units: 1_000 })
      const batches = Array.from({ length: 40 }, (_, i) => {
        const [a, b] = [sale.reservations(2), sale.reservations(2, { skuId: 's2' })]
        return i % 2 ? [...a, ...b] : [...b, ...a]
      })
      const verdicts = await inParallel(16, batches, (batch) => kit.book().confirm(batch))
      expect(tally(verdicts.flat())).toEqual({ confirmed: 160 })
    })

    it('C16: deadlocks among the host’s own rows repeat the whole unit, on both sides', async () => {
      const sale = await kit.sale({ units: 1_000 })
      await kit.knex.schema.createTable('ledger', (t) => {
        t.string('name', 8).primary()
        t.integer('n').notNullable()
      })
      await kit.knex('ledger').insert([
        { name: 'x', n: 0 },
        { name: 'y', n: 0 },
      ])
      let runs = 0
      const add = (trx: Knex.Transaction, name: string) =>
        trx('ledger').where({ name }).increment('n', 1)
      const book = kit.book({
        maxAttempts: 50,
        hooks: {
          async onConfirm(trx) {
            const names = runs++ % 2 ? ['x', 'y'] : ['y', 'x']
            await add(trx, names[0] as string)
            await sleep(5)
            await add(trx, names[1] as string)
          },
        },
      })
      // PostgreSQL looks for a deadlock after a second of waiting, so a few must do.
      const orders = sale.reservations(8)
      const verdicts = await inParallel(3, orders, (order) => book.confirm([order]))
      expect(tally(verdicts.flat())).toEqual({ confirmed: 8 })
      expect(runs, 'deadlocks did occur').toBeGreaterThan(8)
      expect(await kit.knex('ledger').orderBy('name')).toEqual([
        { name: 'x', n: 8 },
        { name: 'y', n: 8 },
      ])
    })

    for (const [name, sql] of Object.entries(RAISE[kind]))
      it(`C16: a ${name} error in a hook repeats the unit and never bisects it`, async () => {
        const sale = await kit.sale()
        const sizes: number[] = []
        const book = kit.book({
          hooks: {
            async onConfirm(trx, orders) {
              sizes.push(orders.length)
              if (sizes.length < 3) await trx.raw(sql)
            },
          },
        })
        expect(tally(await book.confirm(sale.reservations(8)))).toEqual({ confirmed: 8 })
        expect(sizes).toEqual([8, 8, 8])
      })

    it('C16: 30 workers on a row that is locked longer than they wait all come through', async () => {
      const sale = await kit.sale({ units: 60 })
      const book = kit.book({ statementTimeoutMs: 1_000, maxAttempts: 20 })
      const holding = holdStockRow(kit, sale, 2_500)
      await sleep(100)
      const verdicts = await inParallel(30, Array(30).fill(2), (n: number) =>
        book.confirm(sale.reservations(n)),
      )
      await holding
      expect(tally(verdicts.flat())).toEqual({ confirmed: 60 })
    })

    it('C19: a lock held longer than the limit is DB_BUSY, and the update does not come later', async () => {
      const sale = await kit.sale({ units: 5 })
      const book = kit.book({ statementTimeoutMs: 1_000, maxAttempts: 1 })
      const holding = holdStockRow(kit, sale, 3_000)
      await sleep(100)
      const startedAt = Date.now()
      const orders = sale.reservations(2)
      await expect(book.confirm(orders)).rejects.toMatchObject({
        code: 'DB_BUSY',
        cause: { code: kind === 'postgres' ? '55P03' : 'ER_LOCK_WAIT_TIMEOUT' },
      })
      expect(Date.now() - startedAt).toBeLessThan(2_500)
      await holding
      await sleep(300)
      expect(await kit.rows(sale)).toEqual([])
      expect(await book.numbers(sale.ref())).toMatchObject({ available: 5, live: 0 })
      expect(tally(await book.confirm(orders))).toEqual({ confirmed: 2 })
    })

    it('C19: the host finds its connections as it lent them', async () => {
      const sale = await kit.sale()
      const knex = openDatabase(kit.db.address, { poolMax: 1 })
      const limit = async () => {
        const sql =
          kind !== 'postgres'
            ? `SELECT @@SESSION.innodb_lock_wait_timeout AS n, @@SESSION.${kind === 'mysql' ? 'transaction' : 'tx'}_isolation AS i`
            : "SELECT current_setting('lock_timeout') AS n, current_setting('transaction_isolation') AS i"
        const result = await knex.raw(sql)
        return JSON.stringify(kind === 'postgres' ? result.rows : result[0])
      }
      const before = await limit()
      const book = new KnexOrderBook({ knex, statementTimeoutMs: 3_000 })
      await book.confirm(sale.reservations(2))
      await expect(
        new KnexOrderBook({
          knex,
          maxAttempts: 1,
          hooks: {
            onConfirm: async (trx) => {
              await trx.raw(RAISE[kind].deadlock)
            },
          },
        }).confirm(sale.reservations(1)),
      ).rejects.toMatchObject({ code: 'DB_BUSY' })
      for await (const _ of book.snapshot(sale.ref())) break
      expect(await limit()).toBe(before)
      await knex.destroy()
    })

    it('C21: a payment that commits while the close waits for its row wins', async () => {
      const sale = await kit.sale({ units: 3 })
      const [a, b] = sale.reservations(2)
      const numbers = [a?.orderNo ?? '', b?.orderNo ?? '']
      await kit.book().confirm(a && b ? [a, b] : [])
      const paying = await kit.knex.transaction()
      await paying('seckill_order').where({ order_no: a?.orderNo }).update({ status: 'PAID' })
      const closing = kit.book().closeUnpaid(numbers, 'unpaid')
      await sleep(200)
      await paying.commit()
      expect(tally(await closing)).toEqual({ paid: 1, 'closed unpaid': 1 })
      expect(await kit.book().numbers(sale.ref())).toMatchObject({ available: 2, live: 1 })
    })

    it('C16: the answer to COMMIT is lost: looked up by number, not guessed and not done twice', async () => {
      const sale = await kit.sale({ units: 10 })
      await using net = await throughProxy(kit)
      const orders = sale.reservations(3)
      await net.book.numbers(sale.ref())
      net.proxy.swallowReply({ matching: /COMMIT/ })
      const verdicts = await net.book.confirm(orders)
      expect(net.proxy.counts.swallowed).toBe(1)
      expect(verdicts).toEqual(
        orders.map((o) => ({ orderNo: o.orderNo, status: 'confirmed', fresh: false })),
      )
      net.proxy.swallowReply({ matching: /COMMIT/ })
      const closed = await net.book.closeUnpaid([orders[0]?.orderNo ?? ''], 'unpaid')
      expect(closed).toMatchObject([{ status: 'closed', fresh: false }])
      net.proxy.swallowReply({ matching: /COMMIT/ })
      const id = `${sale.activityId}-lost`
      const audit = { actor: 'op', reason: 'lost' }
      expect(await net.book.topUp(sale.ref(), 4, id, audit)).toMatchObject({ total: 14 })
      net.proxy.swallowReply({ matching: /COMMIT/ })
      const control = new KnexActivityControl({ knex: net.knex })
      expect(await control.revokeTokens(sale.activityId, audit)).toBe(2)
      expect((await control.read(sale.activityId)).tokenEpoch).toBe(2)
      expect(net.proxy.counts.swallowed).toBe(4)
      expect(await kit.book().numbers(sale.ref())).toMatchObject({ total: 14, live: 2 })
    })

    it('C16: when it cannot be looked up either, the answer is OUTCOME_UNKNOWN; later it is known', async () => {
      const sale = await kit.sale({ units: 10 })
      await using net = await throughProxy(kit, { maxAttempts: 3 })
      const orders = sale.reservations(3)
      net.proxy.swallowReply({ matching: /COMMIT/, always: true })
      await expect(net.book.confirm(orders)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
      net.proxy.pass()
      expect(tally(await net.book.confirm(orders))).toEqual({ confirmed: 3 })
      expect(await kit.book().numbers(sale.ref())).toMatchObject({ live: 3 })
    })

    it('C16: connections that die in the middle are replaced, and the unit is repeated whole', async () => {
      const sale = await kit.sale({ units: 100 })
      await using net = await throughProxy(kit)
      let cuts = 0
      const book = new KnexOrderBook({
        knex: net.knex,
        hooks: {
          async onConfirm() {
            if (cuts++ > 2) return
            net.proxy.cut()
            net.proxy.pass()
            await sleep(5)
          },
        },
      })
      expect(tally(await book.confirm(sale.reservations(5)))).toEqual({ confirmed: 5 })
      expect(cuts).toBe(4)
    })

    it('C19: a network that swallows everything costs the limit, not for ever, and nothing stays behind', async () => {
      const sale = await kit.sale({ units: 10 })
      await using net = await throughProxy(kit, { maxAttempts: 1 })
      const orders = sale.reservations(2)
      await net.book.numbers(sale.ref())
      net.proxy.hold()
      const startedAt = Date.now()
      await expect(net.book.confirm(orders)).rejects.toMatchObject({
        code: expect.stringMatching(/^DB_/),
      })
      expect(Date.now() - startedAt).toBeLessThan(6_000)
      net.proxy.pass()
      await sleep(100)
      expect(tally(await kit.book().confirm(orders))).toEqual({ confirmed: 2 })
      expect(tally(await net.book.confirm(orders))).toEqual({ confirmed: 2 })
    })

    it('C16: a server that cannot be reached is DB_UNAVAILABLE, and nothing is written', async () => {
      const sale = await kit.sale()
      await using net = await throughProxy(kit, { maxAttempts: 3 })
      net.proxy.cut()
      for (const call of [
        () => net.book.confirm(sale.reservations(1)),
        () => net.book.numbers(sale.ref()),
        () => net.book.snapshot(sale.ref()).next(),
      ])
        await expect(call()).rejects.toMatchObject({ code: 'DB_UNAVAILABLE' })
      expect(await kit.rows(sale)).toEqual([])
    })
  })
