import { equal, ok } from 'node:assert/strict'
import type { Json } from '../../core/types.js'
import type { OrderHooksCheck } from '../order-hooks-suite.js'

/** What buyers may send: any JSON of at most 1 KiB, with prices of their own, and characters that break quoting. */
const PAYLOADS: readonly (Json | undefined)[] = [
  undefined,
  null,
  '',
  0,
  [],
  {},
  { amountMinor: 1, price: 1, priceMinor: 1, quantity: 1_000, orderNo: 'x', userId: 'admin' },
  `'; DROP TABLE orders; -- " \\ \` \u2028 秒杀 🔥`,
  { a: { b: { c: [1, [2, [3, null]]] } }, constructor: 'x' },
  JSON.parse('{"__proto__":{"amountMinor":1}}'),
  'x'.repeat(1_000),
]
/** Ids that databases and languages are tempted to take for the same, or for numbers. */
const USERS = ['User', 'user', '007', '7', '1e5', '9007199254740993', '~'.repeat(64), `'"\\{}:#*`]

export const refusing: readonly OrderHooksCheck[] = [
  {
    name: 'Q5: an order that nobody can take leaves no row, and those beside it are written',
    async check(bench) {
      const orders = bench.orders(9)
      const [poison] = orders.slice(4)
      if (!poison) return
      const book = await bench.book({
        confirmed: (some) => {
          if (some.some((o) => o.orderNo === poison.orderNo)) throw new Error('by the suite')
          return undefined
        },
      })
      await bench.only(poison, 'host-error', orders, await book.confirm(orders))
    },
  },
  {
    name: 'D3: an order that is refused leaves no row, and those beside it are written',
    async check(bench) {
      const orders = bench.orders(9)
      const [refused] = orders.slice(4)
      if (!refused) return
      const { orderNo } = refused
      const book = await bench.book({
        confirmed: (some) =>
          some.some((o) => o.orderNo === orderNo) ? [{ orderNo, veto: 'by the suite' }] : undefined,
      })
      await bench.only(refused, 'veto:by the suite', orders, await book.confirm(orders))
    },
  },
  {
    name: 'C10: whatever a buyer sends along is taken or refused alone, and never as a price',
    async check(bench) {
      const strange = PAYLOADS.map((payload) => {
        const { payload: _, ...order } = bench.order()
        return payload === undefined ? order : { ...order, payload }
      })
      const orders = [...bench.orders(3), ...strange, ...bench.orders(3)]
      const verdicts = await (await bench.book()).confirm(orders)
      const good = [...verdicts.slice(0, 3), ...verdicts.slice(-3)]
      ok(
        good.every((v) => v.status === 'confirmed'),
        'the orders beside them',
      )
      await bench.agrees(orders, verdicts)
    },
  },
  {
    name: 'C10: buyers whose ids differ in a case or a nought are different buyers',
    async check(bench) {
      const book = await bench.book()
      const orders = USERS.map((userId) => ({ ...bench.order(), userId }))
      await bench.confirmed(orders, await book.confirm(orders))
    },
  },
  {
    name: 'Q5: an order over which the hooks throw is closed alone',
    needs: ['throws'],
    async check(bench) {
      const poison = bench.order(bench.under.poison)
      const orders = [...bench.orders(6), poison, ...bench.orders(2)]
      await bench.only(poison, 'host-error', orders, await (await bench.book()).confirm(orders))
    },
  },
  {
    name: 'D3: an order that the hooks refuse is closed in their words, and its units go back',
    needs: ['vetoes'],
    async check(bench) {
      const book = await bench.book()
      const refused = bench.order(bench.under.refused)
      const orders = [...bench.orders(6), refused, ...bench.orders(2)]
      await bench.only(refused, 'veto:', orders, await book.confirm(orders))
      const { activityId } = bench.activity
      equal((await book.numbers({ activityId, skuId: 's1' }))?.live, 8)
    },
  },
]
