import type { Redis } from 'ioredis'
import { afterEach, beforeEach, describe } from 'vitest'
import { damageTests } from './stock-bucket/damage.js'
import { deductTests } from './stock-bucket/deduct.js'
import { inputTests } from './stock-bucket/input.js'
import { moveTests } from './stock-bucket/move.js'
import { owedTests } from './stock-bucket/owed.js'
import { warmUpTests } from './stock-bucket/warm-up.js'
import { World } from './stock-bucket/world.js'

/** The promises of StockBucket, for any Redis; `open` gives an empty one. */
export function stockBucket(engine: 'mock' | 'real', open: () => Promise<Redis>): void {
  let world: World
  beforeEach(async () => {
    world = new World(await open(), engine)
  })
  afterEach(() => world.close())

  describe(`StockBucket, warm-up, on ${engine} Redis`, () => warmUpTests(() => world))
  describe(`StockBucket, deductions, on ${engine} Redis`, () => deductTests(() => world))
  describe(`StockBucket, moves, on ${engine} Redis`, () => moveTests(() => world))
  describe(`StockBucket, owed batches, on ${engine} Redis`, () => owedTests(() => world))
  describe(`StockBucket, damage, on ${engine} Redis`, () => damageTests(() => world))
  describe(`StockBucket, input, on ${engine} Redis`, () => inputTests(() => world))
}
