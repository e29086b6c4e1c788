import { createRequire } from 'node:module'
import { FlashSale, Payments, TriangleReconciler } from 'flash-sale-kit'
import { type Fengari, fengariVm, flashSaleIn, simulate } from 'flash-sale-kit/testing'
import { expect, it } from 'vitest'

/** `npm run simulate` runs as many as one likes; here as many as this machine makes in this time. */
const WITHIN_MS = 200_000

it('as many seeds as fit find nothing in the library', { timeout: 10 * WITHIN_MS }, async () => {
  const { seeds, breach } = await simulate({
    sale: flashSaleIn({ FlashSale, TriangleReconciler, Payments }),
    lua: fengariVm(createRequire(import.meta.url)('fengari') as Fengari),
    seeds: 10_000,
    signal: AbortSignal.timeout(WITHIN_MS),
  })
  expect(breach).toBeNull()
  expect(seeds).toBeGreaterThan(10)
})
