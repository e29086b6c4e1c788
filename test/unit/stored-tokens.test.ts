import { expect, it } from 'vitest'
import { TokenIssuer } from '../../src/token/token-issuer.js'
import { mockRedis } from '../harness/redis.js'
import { storedTokens } from '../suites/stored-tokens.js'

storedTokens('ioredis-mock', mockRedis)

const ANN = { activityId: 'a1', userId: 'ann' }
const TERMS = { expiresAt: Date.now() + 3_600_000, epoch: 1 }

it('an issue without an answer is OUTCOME_UNKNOWN, a verification is REDIS_UNAVAILABLE', async () => {
  const never = () => new Promise<never>(() => {})
  const tokens = new TokenIssuer({ store: { evalsha: never, eval: never }, timeoutMs: 20 })
  await expect(tokens.issue(ANN, TERMS)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
  const token = '00000000-0000-4000-8000-000000000000'
  await expect(tokens.verify(token, ANN)).rejects.toMatchObject({ code: 'REDIS_UNAVAILABLE' })
})

it('what Redis holds and nobody can read is CORRUPT, and is left alone', async () => {
  const store = mockRedis()
  const tokens = new TokenIssuer({ store })
  const token = await tokens.issue(ANN, TERMS)
  await store.set(`seckill:token:{a1}:${token}`, 'ann')
  await expect(tokens.verify(token, ANN)).rejects.toMatchObject({ code: 'CORRUPT' })
  await store.set('seckill:token:{a1}:*ann', 'nonsense')
  await expect(tokens.issue(ANN, TERMS)).rejects.toMatchObject({ code: 'CORRUPT' })
  expect(await store.get('seckill:token:{a1}:*ann')).toBe('nonsense')
})
