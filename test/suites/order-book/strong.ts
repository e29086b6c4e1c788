import { describe, expect, it } from 'vitest'
import { KnexActivityControl } from '../../../src/knex/index.js'
import type { DatabaseKind } from '../../harness/databases.js'
import { AUDIT, tally, useKit } from './kit.js'

export function strongSuite(kind: DatabaseKind): void {
  describe(`buy on ${kind}`, () => {
    const kit = useKit(kind)

    it('S11: 500 buyers at once get exactly the 60 units, and losers leave no row', async () => {
      const sale = await kit.sale({ units: 60, open: true })
      let commits = 0
      const book = kit.book({
        hooks: {
          async onConfirm() {
            commits++
          },
        },
      })
      const answers = await Promise.all(sale.reservations(500).map((r) => book.buy(r)))
      expect(tally(answers)).toEqual({ confirmed: 60, 'sold-out': 440 })
      expect(await kit.rows(sale)).toHaveLength(60)
      expect(commits).toBeLessThan(5)
    })

    it('S11: answers a repeat from its row, whatever state and stock are by now', async () => {
      const sale = await kit.sale({ units: 1, open: true })
      const order = sale.reservation('u1')
      const [first, twin] = await Promise.all([kit.book().buy(order), kit.book().buy(order)])
      expect(first).toEqual({ status: 'confirmed', orderNo: order.orderNo, fresh: true })
      expect(twin).toEqual(first)
      await new KnexActivityControl({ knex: kit.knex }).set(sale.activityId, 'stopped', AUDIT)
      expect(await kit.book().buy(order)).toEqual({ ...first, fresh: false })
      await kit.book().closeUnpaid([order.orderNo], 'unpaid')
      expect(await kit.book().buy(order)).toEqual({
        status: 'closed',
        orderNo: order.orderNo,
        reason: 'unpaid',
      })
    })

    it('S11: tells a buyer of his live order, also when both come in one batch', async () => {
      const sale = await kit.sale({ open: true })
      const [a, b] = [sale.reservation('u1'), sale.reservation('u1')]
      const answers = await Promise.all([kit.book().buy(a), kit.book().buy(b)])
      expect(answers).toEqual([
        { status: 'confirmed', orderNo: a.orderNo, fresh: true },
        { status: 'already-bought', orderNo: a.orderNo },
      ])
      expect(await kit.book().buy(sale.reservation('u1'))).toEqual({
        status: 'already-bought',
        orderNo: a.orderNo,
      })
    })

    it('S11: refuses with the reason, and writes nothing', async () => {
      const sale = await kit.sale({ units: 3, open: true, maxPerOrder: 5 })
      const buy = (o: object) => kit.book().buy(sale.reservation('u1', o))
      expect(await buy({ quantity: 4 })).toEqual({ status: 'not-enough', available: 3 })
      expect(await buy({ version: 'v0' })).toEqual({ status: 'version-mismatch' })
      await expect(buy({ quantity: 6 })).rejects.toMatchObject({ code: 'BAD_INPUT' })
      await expect(buy({ skuId: 'nowhere' })).rejects.toMatchObject({ code: 'NOT_WARMED' })
      const shut = await kit.sale()
      expect(await kit.book().buy(shut.reservation('u1'))).toEqual({ status: 'stopped' })
      expect(await kit.rows(sale)).toEqual([])
      expect(await kit.rows(shut)).toEqual([])
    })

    it('S11: a veto closes the order for good, without owing Redis anything', async () => {
      const sale = await kit.sale({ open: true })
      const order = sale.reservation('u1')
      const book = kit.book({
        hooks: { onConfirm: async () => [{ orderNo: order.orderNo, veto: 'no' }] },
      })
      const closed = { status: 'closed', orderNo: order.orderNo, reason: 'veto:no' }
      expect(await book.buy(order)).toEqual(closed)
      expect(await kit.book().buy(order)).toEqual(closed)
      expect(await kit.count('local_message', { biz_no: `release:${order.orderNo}` })).toBe(0)
    })

    it('S11: another buyer’s order number is no key to his order', async () => {
      const sale = await kit.sale({ open: true })
      const order = sale.reservation('u1')
      await kit.book().buy(order)
      await expect(kit.book().buy({ ...order, userId: 'u2' })).rejects.toMatchObject({
        code: 'BAD_INPUT',
      })
    })

    it('C19: who finds the waiting room full hears DB_BUSY at once', async () => {
      const sale = await kit.sale({ units: 10, open: true })
      const book = kit.book({ maxWaiting: 3 })
      const calls = sale.reservations(6).map((r) => book.buy(r))
      const settled = await Promise.allSettled(calls)
      const refused = settled.filter((s) => s.status === 'rejected')
      expect(refused).toHaveLength(3)
      for (const { reason } of refused) expect(reason).toMatchObject({ code: 'DB_BUSY' })
      expect(await kit.book().numbers(sale.ref())).toMatchObject({ live: 3 })
    })

    it('S11 I13: once a stop is acknowledged, nothing more is sold', async () => {
      const sale = await kit.sale({ units: 100_000, open: true })
      const control = new KnexActivityControl({ knex: kit.knex })
      let acknowledged = false
      let atStop = -1
      const buyer = async (n: number) => {
        for (let i = 0; ; i++) {
          const afterStop = acknowledged
          const answer = await kit.book().buy(sale.reservation(`b${n}-${i}`))
          if (answer.status === 'stopped') return
          expect(afterStop, 'sold to a click after the stop').toBe(false)
        }
      }
      const buyers = Array.from({ length: 20 }, (_, n) => buyer(n))
      await new Promise((resolve) => setTimeout(resolve, 100))
      await control.set(sale.activityId, 'stopped', AUDIT)
      acknowledged = true
      atStop = (await kit.book().numbers(sale.ref()))?.live ?? -1
      await Promise.all(buyers)
      expect(atStop).toBeGreaterThan(0)
      expect((await kit.book().numbers(sale.ref()))?.live).toBe(atStop)
    })

    it('S11 I13: a stop waits for the purchase that saw the sale open', async () => {
      const sale = await kit.sale({ open: true })
      let inside = () => {}
      const begun = new Promise<void>((resolve) => {
        inside = resolve
      })
      const book = kit.book({
        hooks: {
          async onConfirm() {
            inside()
            await new Promise((resolve) => setTimeout(resolve, 150))
          },
        },
      })
      const buying = book.buy(sale.reservation('u1'))
      await begun
      await new KnexActivityControl({ knex: kit.knex }).set(sale.activityId, 'stopped', AUDIT)
      expect(await kit.book().numbers(sale.ref())).toMatchObject({ live: 1 })
      await buying
    })
  })
}
