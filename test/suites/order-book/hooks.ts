import type { Knex } from 'knex'
import knexPackage from 'knex'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { KnexOrderBook, type Order } from '../../../src/knex/index.js'
import type { DatabaseKind } from '../../harness/databases.js'
import { inParallel, tally, useKit } from './kit.js'

/** The host's own order table, written in our transaction. */
const insertShopOrders = (trx: Knex.Transaction, orders: readonly Order[]) =>
  trx('shop_order').insert(
    orders.map((o) => ({ no: o.orderNo, cents: o.amountMinor, act: o.activityId })),
  )

export function hooksSuite(kind: DatabaseKind): void {
  describe(`hooks on ${kind}`, () => {
    const kit = useKit(kind)
    const shopOrders = (act: string) => kit.knex('shop_order').where({ act }).pluck('no')
    beforeAll(() =>
      kit.knex.schema.createTable('shop_order', (t) => {
        t.string('no', 64).primary()
        t.bigInteger('cents').notNullable()
        t.string('act', 64).notNullable()
      }),
    )

    it('D1: what the host writes is committed with the orders, and undone with a shortfall', async () => {
      const sale = await kit.sale({ units: 20 })
      const book = kit.book({
        hooks: {
          async onConfirm(trx, orders) {
            await insertShopOrders(trx, orders)
          },
        },
      })
      const batches = Array.from({ length: 10 }, () => sale.reservations(5))
      const verdicts = (await inParallel(10, batches, (b) => book.confirm(b))).flat()
      expect(tally(verdicts)).toEqual({ confirmed: 20, 'closed sold-out': 30 })
      const confirmed = verdicts.filter((v) => v.status === 'confirmed').map((v) => v.orderNo)
      expect((await shopOrders(sale.activityId)).sort()).toEqual(confirmed.sort())
    })

    it('D3: the host refuses orders by a veto; the others take the units', async () => {
      const sale = await kit.sale({ units: 10 })
      const orders = sale.reservations(10)
      const refused = new Set([orders[2]?.orderNo, orders[7]?.orderNo])
      const seen: string[][] = []
      const book = kit.book({
        hooks: {
          async onConfirm(trx, asked) {
            seen.push(asked.map((o) => o.orderNo))
            await insertShopOrders(trx, asked)
            return asked
              .filter((o) => refused.has(o.orderNo))
              .map((o) => ({ orderNo: o.orderNo, veto: 'blocklist 黑名单' }))
          },
        },
      })
      expect(tally(await book.confirm(orders))).toEqual({
        confirmed: 8,
        'closed veto:blocklist 黑名单': 2,
      })
      expect(seen.map((asked) => asked.length)).toEqual([10, 8])
      expect(await shopOrders(sale.activityId)).toHaveLength(8)
      expect(await kit.book().numbers(sale.ref())).toMatchObject({ available: 2, live: 8 })
    })

    it('D3: a host that refuses one by one still comes to an end', async () => {
      const sale = await kit.sale()
      let calls = 0
      const book = kit.book({
        hooks: {
          async onConfirm(_, asked) {
            calls++
            return [{ orderNo: asked[0]?.orderNo ?? '', veto: 'no' }]
          },
        },
      })
      expect(tally(await book.confirm(sale.reservations(32)))).toEqual({ 'closed veto:no': 32 })
      expect(calls).toBeLessThan(150)
    })

    it('Q5: an order that breaks the hook is found, closed and handed to a person', async () => {
      const sale = await kit.sale()
      const orders = sale.reservations(33)
      const poison = orders[20]?.orderNo
      let tries = 0
      const book = kit.book({
        hooks: {
          async onConfirm(trx, asked) {
            await insertShopOrders(trx, asked)
            if (!asked.some((o) => o.orderNo === poison)) return
            if (asked.length === 1) tries++
            throw new Error('address cannot be read')
          },
        },
      })
      const verdicts = await book.confirm(orders)
      expect(tally(verdicts)).toEqual({ confirmed: 32, 'closed host-error': 1 })
      expect(verdicts[20]).toMatchObject({ orderNo: poison, status: 'closed' })
      expect(tries).toBe(3)
      expect(await shopOrders(sale.activityId)).toHaveLength(32)
      const [task] = await kit
        .knex('seckill_manual_task')
        .where({ kind: 'host-error', ref: poison })
      expect(JSON.parse(task.detail)).toMatchObject({ error: 'Error: address cannot be read' })
    })

    it('Q5: a hook that fails twice and then works confirms the order', async () => {
      const sale = await kit.sale()
      let calls = 0
      const book = kit.book({
        hooks: {
          async onConfirm() {
            if (++calls < 3) throw new Error('not yet')
          },
        },
      })
      expect(tally(await book.confirm(sale.reservations(1)))).toEqual({ confirmed: 1 })
      expect(calls).toBe(3)
    })

    it('C18: a duplicate in the host’s own table is the host’s error, not a repeat without end', async () => {
      const sale = await kit.sale()
      const orders = sale.reservations(3)
      await kit.knex('shop_order').insert({ no: orders[1]?.orderNo, cents: 1, act: 'other' })
      const book = kit.book({
        hooks: {
          async onConfirm(trx, asked) {
            await insertShopOrders(trx, asked)
          },
        },
      })
      expect(tally(await book.confirm(orders))).toEqual({ confirmed: 2, 'closed host-error': 1 })
      const [row] = await kit.knex('shop_order').where({ no: orders[1]?.orderNo })
      expect(Number(row.cents)).toBe(1)
    })

    it('C16: a hook that swallows the loss of its transaction takes no units by itself', async () => {
      const sale = await kit.sale({ units: 5 })
      let lost = 0
      const book = kit.book({
        hooks: {
          async onConfirm(trx) {
            // What a deadlock does to a transaction on MySQL.
            if (lost++ === 0) await trx.raw('ROLLBACK')
          },
        },
      })
      expect(tally(await book.confirm(sale.reservations(2)))).toEqual({ confirmed: 2 })
      expect(lost).toBe(2)
    })

    it('D1: a hook cannot end the transaction', async () => {
      const sale = await kit.sale()
      for (const end of ['commit', 'rollback'] as const) {
        const book = kit.book({
          hooks: {
            async onConfirm(trx) {
              await trx[end]()
            },
          },
        })
        expect(tally(await book.confirm(sale.reservations(1)))).toEqual({ 'closed host-error': 1 })
      }
    })

    it('C19: a hook that never ends costs DB_BUSY, and nothing is written', async () => {
      const sale = await kit.sale()
      const book = kit.book({
        hookTimeoutMs: 50,
        maxAttempts: 2,
        hooks: { onConfirm: () => new Promise(() => {}) },
      })
      await expect(book.confirm(sale.reservations(2))).rejects.toMatchObject({ code: 'DB_BUSY' })
      expect(await kit.rows(sale)).toEqual([])
      expect(tally(await kit.book().confirm(sale.reservations(2)))).toEqual({ confirmed: 2 })
    })

    it('D1: a veto of an order that was not offered, or with cut-off words, is a mistake of the host', async () => {
      const sale = await kit.sale()
      for (const veto of [
        { orderNo: 'elsewhere', veto: 'no' },
        { veto: '' },
        { veto: 'x'.repeat(201) },
        { veto: 7 },
      ]) {
        const book = kit.book({
          hooks: {
            onConfirm: async (_, [order]) => [{ orderNo: order?.orderNo, ...veto } as never],
          },
        })
        expect(tally(await book.confirm(sale.reservations(1)))).toEqual({ 'closed host-error': 1 })
      }
    })

    describe('with a host whose knex renames and rewrites everything', () => {
      let camel: Knex
      beforeAll(() => {
        const { client, connection, pool, useNullAsDefault } = kit.knex.client.config
        camel = knexPackage({
          client,
          connection,
          pool,
          useNullAsDefault,
          wrapIdentifier: (value, wrap) => wrap(`x_${value}`),
          postProcessResponse: () => ({ rewritten: true }),
        })
      })
      afterAll(() => camel.destroy())

      it('D1: the book does its work all the same', async () => {
        const sale = await kit.sale({ units: 2 })
        const book = new KnexOrderBook({ knex: camel })
        const orders = sale.reservations(3)
        expect(tally(await book.confirm(orders))).toEqual({ confirmed: 2, 'closed sold-out': 1 })
        expect(await book.find([orders[0]?.orderNo ?? ''])).toHaveLength(1)
        expect(await book.numbers(sale.ref())).toMatchObject({ available: 0 })
      })
    })
  })
}
