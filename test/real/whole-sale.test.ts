import { expect, test } from 'vitest'
import { faultsOf, wholeSale } from '../harness/whole-sale.js'

test.each(['mariadb', 'postgres'] as const)(
  'V2 V3: 50,000 POSTs, 10 % repeated, for 1,000 units on two processes and %s end in exactly 1,000 orders',
  async (db) => {
    const result = await wholeSale({ db })
    expect(faultsOf(result, { requests: 50_000, units: 1_000 })).toEqual([])
  },
)
