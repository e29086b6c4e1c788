import { orderHooksSuite } from 'flash-sale-kit/testing'
import type { Knex } from 'knex'
import { describe, test } from 'vitest'
import { careful, shopUnderTest } from '../unit/testing-order-hooks.js'

describe.each(['mariadb', 'postgres'] as const)('order hooks on %s', (kind) => {
  for (const { name, run } of orderHooksSuite<Knex.Transaction>([]))
    test(`Express example: ${name}`, () => run(() => shopUnderTest(kind)))
  for (const { name, run } of orderHooksSuite<Knex.Transaction>(['closes', 'throws', 'vetoes']))
    test(name, () => run(() => shopUnderTest(kind, () => careful)))
})
