import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { AUDIT, tally, useKit } from './kit.js'

export function idsAndNumbersSuite(kind: DatabaseKind): void {
  describe(`ids and numbers on ${kind}`, () => {
    const kit = useKit(kind)

    it('C10: ids that differ in case alone are different buyers, orders, SKUs and activities', async () => {
      const sale = await kit.sale()
      const pairs = ['User1', 'user1', 'USER1', 'uSer1']
      const orders = pairs.map((userId, i) =>
        sale.reservation(userId, { orderNo: `${sale.activityId}-${pairs[i]}` }),
      )
      expect(tally(await kit.book().confirm(orders))).toEqual({ confirmed: 4 })
      for (const order of orders) {
        expect(await kit.book().find([order.orderNo])).toMatchObject([{ userId: order.userId }])
        expect(await kit.book().findByBuyer(sale.ref(), order.userId)).toMatchObject({
          orderNo: order.orderNo,
        })
      }
      expect(await kit.book().numbers({ ...sale.ref(), skuId: 'S1' })).toBeNull()
      const upper = sale.activityId.toUpperCase()
      expect(await kit.book().numbers({ activityId: upper, skuId: 's1' })).toBeNull()
    })

    it('C10: the tables themselves tell apart accents, trailing blanks, NFC and NFD, and zero width', async () => {
      const twins = [
        'Userä1',
        'userä1',
        'Usera1',
        'Userä1 ',
        'Usera\u03081',
        'Userä1\u200b',
        'Userä１',
      ]
      const task = (ref: string) => ({ kind: 'twins', ref, detail: '{}', created_at: 1 })
      for (const ref of twins) await kit.knex('seckill_manual_task').insert(task(ref))
      for (const ref of twins) {
        const found = await kit.knex('seckill_manual_task').where({ kind: 'twins', ref })
        expect(found.map((row) => row.ref)).toEqual([ref])
      }
    })

    it('C10: the longest ids, with every sign an id may have, come back byte for byte', async () => {
      const signs = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i)).join('')
      const allowed = signs.replace('|', '')
      const [a, b] = [allowed.slice(0, 64), allowed.slice(29)]
      const sale = await kit.sale()
      const orders = [
        sale.reservation(b, { orderNo: a }),
        sale.reservation(a, { orderNo: b, payload: signs }),
      ]
      expect(tally(await kit.book().confirm(orders))).toEqual({ confirmed: 2 })
      expect(await kit.book().find([a, b])).toMatchObject([
        { orderNo: a, userId: b },
        { orderNo: b, userId: a, payload: signs },
      ])
      expect(tally(await kit.book().closeUnpaid([a], "it's %_\\ 秒杀"))).toEqual({
        "closed it's %_\\ 秒杀": 1,
      })
    })

    it('C11: 64-bit user ids stay apart, as text and as BigInt', async () => {
      const sale = await kit.sale()
      const ids = ['1849302938475629013', '1849302938475629014']
      await kit.book().confirm(ids.map((userId) => sale.reservation(userId)))
      for (const id of ids) {
        expect(await kit.book().findByBuyer(sale.ref(), id)).toMatchObject({ userId: id })
        expect(await kit.book().findByBuyer(sale.ref(), BigInt(id) as never)).toMatchObject({
          userId: id,
        })
      }
      await expect(
        kit.book().findByBuyer(sale.ref(), Number('1849302938475629013') as never),
      ).rejects.toMatchObject({ code: 'BAD_INPUT' })
    })

    it('C11: sums and amounts are exact numbers, up to the largest there can be', async () => {
      const sale = await kit.sale({ prepared: false })
      const skus = [
        { skuId: 's1', units: 1_000_000_000, priceMinor: 1_000_000_000_000, currency: 'IDR' },
      ]
      await kit.book().prepare({ ...sale.activity, maxPerOrder: 1000, skus })
      const orders = [sale.reservation('u1', { quantity: 1000 }), sale.reservation('u2')]
      await kit.book().confirm(orders)
      const [row] = await kit.book().find([orders[0]?.orderNo ?? ''])
      expect(row?.amountMinor).toBe(1_000_000_000_000_000)
      const numbers = await kit.book().numbers(sale.ref())
      expect(numbers).toEqual({
        ...sale.ref(),
        total: 1_000_000_000,
        available: 999_998_999,
        live: 1001,
      })
      for (const value of [numbers?.live, row?.quantity, row?.payBy, row?.reservedAt])
        expect(typeof value).toBe('number')
      expect(
        await kit.book().topUp(sale.ref(), -999_998_999, `${sale.activityId}w`, AUDIT),
      ).toEqual({
        ...sale.ref(),
        total: 1001,
        available: 0,
        live: 1001,
      })
    })

    it('C11: a stored number that is not exact is an error, not an approximation', async () => {
      const sale = await kit.sale()
      const [order] = sale.reservations(1)
      await kit.book().confirm(order ? [order] : [])
      const write = (amount: string) =>
        kit
          .knex('seckill_order')
          .where({ order_no: order?.orderNo })
          .update({ amount_minor: kit.knex.raw(amount) })
      await write('9007199254740993')
      await expect(kit.book().find([order?.orderNo ?? ''])).rejects.toMatchObject({
        code: 'CORRUPT',
      })
      await write('990')
    })

    it('C18: the tables refuse a NULL amount, an unknown state, and stock below zero or above its total', async () => {
      const sale = await kit.sale()
      const [order] = sale.reservations(1)
      await kit.book().confirm(order ? [order] : [])
      const orders = kit.knex('seckill_order').where({ order_no: order?.orderNo })
      const stock = kit.knex('seckill_stock').where({ activity_id: sale.activityId })
      await expect(orders.clone().update({ amount_minor: null })).rejects.toThrow()
      await expect(orders.clone().update({ status: 'SHIPPED' })).rejects.toThrow()
      await expect(orders.clone().update({ status: 'CLOSED' })).rejects.toThrow()
      await expect(stock.clone().update({ available: -1 })).rejects.toThrow()
      await expect(stock.clone().update({ available: 101 })).rejects.toThrow()
    })
  })
}
