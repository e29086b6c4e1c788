import type { HooksLike, OrderToBook } from 'flash-sale-kit/testing'
import { MemoryOrderBook, orderHooksSuite } from 'flash-sale-kit/testing'
import type { Knex } from 'knex'
import { describe, expect, test } from 'vitest'
import { insertShopOrders } from '../../examples/express/server.js'
import { type Mutant, noticed } from './mutants.js'
import { careful, shopUnderTest } from './testing-order-hooks.js'

type Hooks = HooksLike<Knex.Transaction>
const ALL = orderHooksSuite<Knex.Transaction>(['closes', 'throws', 'vetoes'])

describe('the hooks of the Express example', () => {
  for (const { name, run } of orderHooksSuite<Knex.Transaction>([]))
    test(name, () => run(() => shopUnderTest('sqlite')))
})

describe('hooks that refuse, throw and take back', () => {
  for (const { name, run } of ALL)
    test(name, () => run(() => shopUnderTest('sqlite', () => careful)))
})

/** The careful host with one hook changed. */
const confirms = (onConfirm: NonNullable<Hooks['onConfirm']>) => (): Hooks => ({
  ...careful,
  onConfirm,
})
const closes = (onClose: NonNullable<Hooks['onClose']>) => (): Hooks => ({ ...careful, onClose })
/** A host who tells orders that he has seen by a set in memory. */
const remembering = (): Hooks => {
  const fresh = () => {
    const seen = new Set<string>()
    return (orders: readonly OrderToBook[]) =>
      orders.filter((o) => !seen.has(o.orderNo) && seen.add(o.orderNo))
  }
  const [booked, closed] = [fresh(), fresh()]
  return {
    async onConfirm(trx, orders) {
      const some = booked(orders)
      if (some.length > 0) await insertShopOrders(trx, some)
    },
    onClose: async (trx, orders, reason) => careful.onClose?.(trx, closed(orders), reason),
  }
}
const vetoed = (orders: readonly OrderToBook[]) =>
  orders.map(({ orderNo }) => ({ orderNo, veto: 'no PO boxes' }))

const MUTANTS: readonly Mutant<(outer: Knex) => Hooks>[] = [
  [
    'the price as the buyer says it',
    confirms((trx, orders) =>
      insertShopOrders(
        trx,
        orders.map((o) => ({ ...o, ...(o.payload as { amountMinor?: number }) })),
      ),
    ),
    ['never as a price'],
  ],
  [
    'the price of one unit',
    confirms((trx, orders) =>
      insertShopOrders(
        trx,
        orders.map((o) => ({ ...o, amountMinor: 990 })),
      ),
    ),
    ['at the price of its version'],
  ],
  [
    'no more than 100 orders',
    confirms((trx, orders) => insertShopOrders(trx, orders.slice(0, 100))),
    ['256 orders'],
  ],
  [
    'a batch in place of those before it',
    confirms(async (trx, orders) => {
      await trx('shop_order').delete()
      await insertShopOrders(trx, orders)
    }),
    ['come again beside fresh ones'],
  ],
  [
    'orders that it was told of and forgot to write again',
    remembering,
    [
      'D1: runs again for the same orders',
      'cut off and repeated',
      'an order that nobody can take',
      'an order that is refused leaves no row',
      'closing runs again',
      'whose closing is undone',
    ],
  ],
  [
    'a connection of the pool',
    (outer) => ({
      onConfirm: async (_, orders) => insertShopOrders(outer as Knex.Transaction, orders),
    }),
    ['C19: needs no connection'],
  ],
  [
    'nothing of an order that it cannot read',
    confirms(async (trx, orders) => {
      const readable = orders.filter((o) => typeof o.payload === 'object' && o.payload !== null)
      if (readable.length > 0) await insertShopOrders(trx, readable)
    }),
    ['C10: whatever a buyer sends', 'over which the hooks throw'],
  ],
  [
    'one order for all spellings of a buyer',
    confirms((trx, orders) => {
      const buyers = new Map(orders.map((o) => [o.userId.toLowerCase(), o]))
      return insertShopOrders(trx, [...buyers.values()])
    }),
    ['C10: buyers whose ids differ'],
  ],
  [
    'a refusal of the whole batch',
    confirms(async (trx, orders) => {
      const refused = await careful.onConfirm?.(trx, orders)
      return refused?.length ? vetoed(orders) : []
    }),
    ['D3: an order that the hooks refuse'],
  ],
  ['closings that it does not hear', closes(async () => {}), ['does not stand any more', 'C21']],
]

noticed(ALL, MUTANTS, (hooks) => () => shopUnderTest('sqlite', hooks))

test('the suite says so when the pool has more than one connection', async () => {
  const pool = ALL.find(({ name }) => name.includes('C19: needs no connection'))
  const under = await shopUnderTest('sqlite')
  const apart = new MemoryOrderBook()
  const book: typeof under.book = (hooks, limits) =>
    Object.assign(under.book(hooks, limits), { numbers: apart.numbers.bind(apart) })
  await expect(pool?.run(async () => ({ ...under, book }))).rejects.toThrow('pool of ONE')
})
