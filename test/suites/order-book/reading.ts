import { describe, expect, it } from 'vitest'
import type { OrderRow } from '../../../src/core/order-book.js'
import type { DatabaseKind } from '../../harness/databases.js'
import { useKit } from './kit.js'

export function readingSuite(kind: DatabaseKind): void {
  describe(`reading on ${kind}`, () => {
    // One connection more than the snapshot's own, where the database has a server.
    const kit = useKit(kind, { poolMax: 2 })

    it('find: rows in the order asked for, each once, unknown numbers left out', async () => {
      const sale = await kit.sale()
      const [a, b, c] = sale.reservations(3)
      if (!a || !b || !c) throw new Error('three were asked for')
      await kit.book().confirm([a, b, c])
      const rows = await kit.book().find([c.orderNo, 'none', a.orderNo, c.orderNo])
      expect(rows.map((r) => r.orderNo)).toEqual([c.orderNo, a.orderNo])
      expect(await kit.book().find([])).toEqual([])
    })

    it('findByBuyer: the live order, else the latest closed one, else null', async () => {
      const sale = await kit.sale()
      const orders = [1, 2, 3].map(() => sale.reservation('u1'))
      const of = async (userId: string) => kit.book().findByBuyer(sale.ref(), userId)
      expect(await of('u1')).toBeNull()
      await kit.book().closeUnbooked([orders[0] as never], 'lost')
      await new Promise((resolve) => setTimeout(resolve, 5))
      await kit.book().closeUnbooked([orders[1] as never], 'lost')
      expect(await of('u1')).toMatchObject({ orderNo: orders[1]?.orderNo, status: 'closed' })
      await kit.book().confirm([orders[2] as never])
      await kit.book().confirm([sale.reservation('u1')])
      expect(await of('u1')).toMatchObject({ orderNo: orders[2]?.orderNo, status: 'confirmed' })
      expect(await of('u2')).toBeNull()
    })

    it('snapshot: every row of one moment, in order of number, while others write', async () => {
      const sale = await kit.sale({ units: 5_000, skus: 2 })
      const before = sale.reservations(2_300)
      await kit.book().confirm(before)
      await kit.book().confirm(sale.reservations(3, { skuId: 's2' }))
      const seen: OrderRow[] = []
      let writing: Promise<unknown> = Promise.resolve()
      for await (const row of kit.book().snapshot(sale.ref())) {
        // SQLite has one connection, and the snapshot has it: there the writers wait.
        if (seen.length === 0 && kit.kind !== 'sqlite') {
          writing = Promise.all([
            kit.book().confirm(sale.reservations(200)),
            kit.book().closeUnpaid([before.at(-1)?.orderNo ?? ''], 'unpaid'),
          ])
          await writing
        }
        seen.push(row)
      }
      await writing
      const numbers = seen.map((row) => row.orderNo)
      expect(numbers).toEqual(before.map((r) => r.orderNo).sort())
      expect(seen.every((row) => row.status === 'confirmed')).toBe(true)
    })

    it('snapshot: gives its connection back when the loop is left, or throws', async () => {
      const sale = await kit.sale()
      await kit.book().confirm(sale.reservations(5))
      for (let i = 0; i < 4; i++) {
        for await (const _ of kit.book().snapshot(sale.ref())) break
        await expect(
          (async () => {
            for await (const _ of kit.book().snapshot(sale.ref())) throw new Error('mine')
          })(),
        ).rejects.toThrow('mine')
      }
      expect(await kit.book({ acquireTimeoutMs: 500 }).numbers(sale.ref())).toMatchObject({
        live: 5,
      })
    })

    it('snapshot: of an SKU without rows is empty', async () => {
      for await (const row of kit.book().snapshot({ activityId: 'none', skuId: 's1' }))
        expect(row).toBeUndefined()
    })
  })
}
