import type { Redis } from 'ioredis'
import { afterAll, beforeAll } from 'vitest'
import { type FreshRedis, freshRedis } from './redis.js'

/** A Redis for the tests of this file. Each call empties it. */
export function useEmptyRedis(): () => Promise<Redis> {
  let fresh: FreshRedis | undefined
  beforeAll(async () => {
    fresh = await freshRedis()
  })
  afterAll(() => fresh?.destroy())
  return async () => {
    if (!fresh) throw new Error('the server is there once the tests run')
    await fresh.redis.flushall()
    return fresh.redis
  }
}
