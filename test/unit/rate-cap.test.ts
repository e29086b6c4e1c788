import { expect, test } from 'vitest'
import { ClusterRateCap, LocalRateCap } from '../../src/queue/rate-cap.js'
import { expectCapped, write } from '../suites/rate-cap.js'

test('Q4: writers of one process stay under the cap in every second, and use it', async () => {
  const cap = new LocalRateCap(100)
  const commits = await write([cap, cap, cap], { orders: 30, ms: 3_000 })
  expectCapped(commits, 100)
  expect(commits.reduce((sum, c) => sum + c.orders, 0)).toBeGreaterThan(60)
})

test('an aborted wait takes no room', async () => {
  const cap = new LocalRateCap(10)
  const written = await cap.take(10, new AbortController().signal)
  expect(await cap.take(1, AbortSignal.timeout(30))).toBeNull()
  written?.()
})

test('Q4: without Redis each process goes on within its own share', async () => {
  const errors: unknown[] = []
  const down = () => Promise.reject(new Error('Connection is closed.'))
  const redis = { evalsha: down, eval: down }
  const onError = (error: unknown) => errors.push(error)
  const cap = new ClusterRateCap({
    redis,
    name: 'orders',
    perSecond: 100,
    alonePerSecond: 25,
    onError,
  })
  const commits = await write([cap], { orders: 25, ms: 2_500 })
  expectCapped(commits, 25)
  expect(commits.length).toBeGreaterThan(1)
  expect(errors.length).toBeGreaterThan(1)
})
