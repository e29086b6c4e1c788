import { describe, expect, it } from 'vitest'
import type { Activity, Reservation } from '../../../src/core/types.js'
import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from '../../../src/knex/index.js'
import type { DatabaseKind } from '../../harness/databases.js'
import { AUDIT, useKit } from './kit.js'

const QUANTITIES: readonly unknown[] = [
  -5,
  0,
  0.5,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  -0,
  '0x10',
  '1e2',
  ' 5 ',
  '5',
  '',
  true,
  null,
  [2],
  1n,
  2 ** 53,
  Number.MAX_SAFE_INTEGER,
  1001,
  undefined,
]
const IDS: readonly unknown[] = [
  '',
  ' ',
  'a b',
  'a|b',
  'é',
  '秒杀🔥',
  'a\n',
  'a\0',
  'x'.repeat(65),
  'x'.repeat(10_000),
  7,
  7n,
  null,
  undefined,
  {},
  ['a'],
]
const KEY_IDS: readonly unknown[] = [...IDS, '}x', '{}', 'a:b', '*', '#']
const TEXTS: readonly unknown[] = ['', 'x'.repeat(501), 7, null, undefined, {}, 'nul\0', '\ud800']

const TABLES = [
  'seckill_stock',
  'seckill_order',
  'local_message',
  'seckill_manual_task',
  'seckill_activity',
  'seckill_activity_terms',
  'seckill_audit',
  'seckill_top_up',
]

export function inputSuite(kind: DatabaseKind): void {
  describe(`bad input on ${kind}`, () => {
    const kit = useKit(kind)
    const everything = async () =>
      Object.fromEntries(await Promise.all(TABLES.map(async (t) => [t, await kit.knex(t)])))

    /** Every call is refused with BAD_INPUT, and no table has changed. */
    async function refuses(calls: readonly (() => Promise<unknown>)[]): Promise<void> {
      const before = await everything()
      for (const [i, call] of calls.entries())
        await expect(call(), `call ${i} of ${calls.length}`).rejects.toMatchObject({
          name: 'FlashSaleError',
          code: 'BAD_INPUT',
        })
      expect(await everything()).toEqual(before)
    }

    it('C02 C06: no method takes a reservation with a field out of order', async () => {
      const sale = await kit.sale({ open: true })
      const good = sale.reservation('u1')
      const bad: unknown[] = [
        null,
        undefined,
        'x',
        [],
        ...QUANTITIES.map((quantity) => ({ ...good, quantity })),
        ...IDS.flatMap((id) => [
          { ...good, orderNo: id },
          { ...good, userId: id },
          { ...good, version: id },
        ]),
        ...KEY_IDS.flatMap((id) => [
          { ...good, activityId: id },
          { ...good, skuId: id },
        ]),
        ...[-1, 0.5, '0', null, undefined, 1e9].map((bucket) => ({ ...good, bucket })),
        ...[0, 1_600_000_000, '1600000000000', 1.5e12 + 0.5, null].map((reservedAt) => ({
          ...good,
          reservedAt,
        })),
        ...['x'.repeat(1_023), 1n, () => 1].map((payload) => ({ ...good, payload })),
      ]
      await refuses(
        (bad as Reservation[]).flatMap((r) => [
          () => kit.book().confirm([good, r]),
          () => kit.book().closeUnbooked([good, r], 'lost'),
          () => kit.book().buy(r),
        ]),
      )
    })

    it('C02: nor a list that is none, or too long, nor a number or reason out of order', async () => {
      const sale = await kit.sale()
      const good = sale.reservation('u1')
      const book = kit.book()
      const lists: unknown[] = [null, undefined, 'abc', {}, 7, Array(10_001).fill(good), Array(1)]
      const numberLists: unknown[] = [...lists, ...IDS.map((id) => ['fine', id])]
      const reasons: unknown[] = [...TEXTS, 'x'.repeat(201)]
      await refuses([
        ...lists.flatMap((list) => [
          () => book.confirm(list as never),
          () => book.closeUnbooked(list as never, 'lost'),
        ]),
        ...numberLists.flatMap((list) => [
          () => book.find(list as never),
          () => book.closeUnpaid(list as never, 'unpaid'),
          () => book.released(list as never),
        ]),
        ...reasons.flatMap((reason) => [
          () => book.closeUnbooked([good], reason as never),
          () => book.closeUnpaid([good.orderNo], reason as never),
        ]),
      ])
    })

    it('C02: nor a reference, an operation, a limit or a lease out of order', async () => {
      const sale = await kit.sale()
      const book = kit.book()
      const refs: unknown[] = [
        null,
        undefined,
        'a1',
        ...KEY_IDS.map((id) => ({ activityId: id, skuId: 's1' })),
        ...KEY_IDS.map((id) => ({ activityId: sale.activityId, skuId: id })),
      ]
      const units = QUANTITIES.filter((q) => q !== -5 && q !== 1001)
      const limits: unknown[] = [0, -1, 1.5, '5', null, undefined, 1e9]
      await refuses([
        ...refs.flatMap((ref) => [
          () => book.numbers(ref as never),
          () => book.findByBuyer(ref as never, 'u1'),
          () => book.topUp(ref as never, 1, 'op', AUDIT),
          async () => book.snapshot(ref as never).next(),
        ]),
        ...IDS.filter((id) => id !== 7n).map(
          (id) => () => book.findByBuyer(sale.ref(), id as never),
        ),
        ...units.map((n) => () => book.topUp(sale.ref(), n as never, 'op', AUDIT)),
        ...IDS.map((id) => () => book.topUp(sale.ref(), 1, id as never, AUDIT)),
        ...badAudits().map((audit) => () => book.topUp(sale.ref(), 1, 'op', audit as never)),
        ...limits.flatMap((n) => [
          () => book.takeReleases({ limit: n as never, leaseMs: 1_000 }),
          () => book.takeReleases({ limit: 1, leaseMs: n as never }),
          () => book.overdue({ limit: n as never }),
        ]),
        () => book.takeReleases(undefined as never),
      ])
    })

    it('C02: nor an activity out of order; nor do the control and the store', async () => {
      const sale = await kit.sale({ prepared: false })
      const control = new KnexActivityControl({ knex: kit.knex })
      const store = new KnexActivityStore({ knex: kit.knex })
      const bad = badActivities(sale.activity)
      await refuses([
        ...bad.flatMap((activity) => [
          () => kit.book().prepare(activity as never),
          () => store.save(activity as never),
        ]),
        ...KEY_IDS.flatMap((id) => [
          () => control.read(id as never),
          () => control.set(id as never, 'open', AUDIT),
          () => control.revokeTokens(id as never, AUDIT),
          () => store.load(id as never),
          () => store.retire(id as never),
        ]),
        ...['OPEN', '', null, undefined, 1].map(
          (state) => () => control.set(sale.activityId, state as never, AUDIT),
        ),
        ...badAudits().flatMap((audit) => [
          () => control.set(sale.activityId, 'open', audit as never),
          () => control.revokeTokens(sale.activityId, audit as never),
        ]),
      ])
    })

    it('options: names the one that is wrong, before any I/O', async () => {
      const { knex } = kit
      const trx = await knex.transaction()
      const wrong: unknown[] = [
        undefined,
        {},
        { knex: 'mysql' },
        { knex: trx },
        ...['', 'Seckill_', '1x', 'a-b', 'a;drop table x', 'a`b', 'x'.repeat(31), 7].map(
          (prefix) => ({
            knex,
            prefix,
          }),
        ),
        ...['statementTimeoutMs', 'acquireTimeoutMs', 'hookTimeoutMs', 'maxAttempts'].flatMap(
          (name) => [0, -1, '5', Number.NaN].map((value) => ({ knex, [name]: value })),
        ),
        { knex, onePer: 'user' },
        { knex, stockUpdate: 'pessimistic' },
      ]
      for (const o of wrong)
        expect(() => new KnexOrderBook(o as never)).toThrow(
          expect.objectContaining({ code: 'BAD_OPTION' }),
        )
      await trx.rollback()
      expect(() => KnexOrderBook.sql('oracle' as never)).toThrow('dialect')
      expect(() => KnexOrderBook.sql('pg', { prefix: 'a"b' })).toThrow('prefix')
    })
  })
}

function badAudits(): readonly unknown[] {
  return [
    null,
    undefined,
    'me',
    ...TEXTS.map((actor) => ({ ...AUDIT, actor })),
    { ...AUDIT, actor: 'x'.repeat(65) },
    ...TEXTS.map((reason) => ({ ...AUDIT, reason })),
    { ...AUDIT, approvedBy: '' },
  ]
}

function badActivities(good: Activity): readonly unknown[] {
  const [sku] = good.skus
  const withSku = (change: object) => ({ ...good, skus: [{ ...sku, ...change }] })
  return [
    null,
    undefined,
    ...KEY_IDS.map((activityId) => ({ ...good, activityId })),
    ...IDS.map((version) => ({ ...good, version })),
    { ...good, endsAt: good.opensAt },
    { ...good, opensAt: '2026-11-11' },
    { ...good, payWithinMs: 1 },
    { ...good, skus: [] },
    { ...good, skus: [sku, sku] },
    ...KEY_IDS.map((skuId) => withSku({ skuId })),
    ...[0, -1, 1.5, '100', 1e15, 2 ** 53 + 1, null].map((units) => withSku({ units })),
    ...[-1, 0.5, '9.90', 1e13, Number.NaN].map((priceMinor) => withSku({ priceMinor })),
    ...['cny', 'CN', '', null].map((currency) => withSku({ currency })),
  ]
}
