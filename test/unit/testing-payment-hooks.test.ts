import { type PaymentHooksLike, paymentHooksSuite } from 'flash-sale-kit/testing'
import type { Knex } from 'knex'
import { describe, expect, test } from 'vitest'
import { careful, depotUnderTest } from './testing-payment-hooks.js'

type Hooks = PaymentHooksLike<Knex.Transaction>
const ALL = paymentHooksSuite<Knex.Transaction>(['refunds'])

describe('hooks of a host who ships what is paid', () => {
  for (const { name, run } of ALL) test(name, () => run(() => depotUnderTest('sqlite')))
})

/** The careful host with one hook changed. */
const pays = (onPaid: NonNullable<Hooks['onPaid']>) => (): Hooks => ({ ...careful, onPaid })
const refunds = (onRefunded: NonNullable<Hooks['onRefunded']>) => (): Hooks => ({
  ...careful,
  onRefunded,
})
/** A host who tells what he has seen by a set in memory. */
const remembering = (): Hooks => {
  const [paid, refunded] = [new Set<string>(), new Set<string>()]
  const fresh = (seen: Set<string>, no: string) => !seen.has(no) && seen.add(no)
  return {
    async onPaid(trx, order, payment) {
      if (fresh(paid, order.orderNo)) await careful.onPaid?.(trx, order, payment)
    },
    async onRefunded(trx, order, refundId) {
      if (fresh(refunded, order.orderNo)) await careful.onRefunded?.(trx, order, refundId)
    },
  }
}

/** A way to be wrong, and words of the cases that must notice. */
const MUTANTS: readonly (readonly [string, (outer: Knex) => Hooks, readonly string[]])[] = [
  [
    'nothing begun',
    pays(async () => {}),
    ['a paid order is begun once', 'is begun once', 'again, also at once'],
  ],
  [
    'two parcels',
    pays(async (trx, order, payment) => {
      await careful.onPaid?.(trx, order, payment)
      await careful.onPaid?.(trx, order, payment)
    }),
    ['begins nothing more', 'each is begun once'],
  ],
  [
    'a connection of the pool',
    (outer) => ({
      ...careful,
      onPaid: async (_, { orderNo }) => void (await outer('parcel').insert({ order_no: orderNo })),
    }),
    ['a paid order is begun once'],
  ],
  ['a set in memory', remembering, ['begins again once it was undone', 'a refund that is undone']],
  [
    'the order that the money was meant for',
    pays(async (trx, { orderNo }, { insteadOf }) => {
      await trx('parcel').insert({ order_no: insteadOf ?? orderNo })
    }),
    ['money that comes too late'],
  ],
  [
    'refunds that it does not hear',
    refunds(async () => {}),
    ['whose money goes back is taken back', 'a refund that is undone'],
  ],
  [
    'everything taken back',
    refunds(async (trx) => {
      await trx('parcel').delete()
    }),
    ['whose money goes back is taken back'],
  ],
]

test.each(MUTANTS)('the suite notices %s', async (_, hooks, words) => {
  for (const word of words) {
    const named = ALL.filter(({ name }) => name.includes(word))
    expect(named, word).not.toEqual([])
    for (const { name, run } of named)
      await expect(
        run(() => depotUnderTest('sqlite', hooks)),
        name,
      ).rejects.toThrow()
  }
})

test('every case of the suite is seen to fail', () => {
  const words = MUTANTS.flatMap(([, , its]) => its)
  const unseen = ALL.filter(({ name }) => !words.some((word) => name.includes(word)))
  expect(unseen.map(({ name }) => name)).toEqual([])
})
