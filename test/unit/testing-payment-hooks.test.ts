import { type PaymentHooksLike, paymentHooksSuite } from 'flash-sale-kit/testing'
import type { Knex } from 'knex'
import { describe, test } from 'vitest'
import { type Mutant, noticed } from './mutants.js'
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

const MUTANTS: readonly Mutant<(outer: Knex) => Hooks>[] = [
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

noticed(ALL, MUTANTS, (hooks) => () => depotUnderTest('sqlite', hooks))
