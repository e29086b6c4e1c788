import { activityControlSuite, activityStoreSuite, orderBookSuite } from 'flash-sale-kit/testing'
import { describe, test } from 'vitest'
import { knexActivityControl, knexActivityStore, knexOrderBook } from '../unit/testing-books.js'

describe.each(['mariadb', 'postgres'] as const)('suites of the kit on %s', (kind) => {
  for (const { name, run } of orderBookSuite(['strong']))
    test(name, () => run(() => knexOrderBook(kind)))
  for (const { name, run } of activityControlSuite())
    test(name, () => run(() => knexActivityControl(kind)))
  for (const { name, run } of activityStoreSuite(['settles']))
    test(name, () => run(() => knexActivityStore(kind)))
})
