import { paymentHooksSuite } from 'flash-sale-kit/testing'
import type { Knex } from 'knex'
import { describe, test } from 'vitest'
import { depotUnderTest } from '../unit/testing-payment-hooks.js'

describe.each(['mariadb', 'postgres'] as const)('payment hooks on %s', (kind) => {
  for (const { name, run } of paymentHooksSuite<Knex.Transaction>(['refunds']))
    test(name, () => run(() => depotUnderTest(kind)))
})
