import { setTimeout as sleep } from 'node:timers/promises'
import type { Batch, OrderBook, OwedBatch, Queue, Sent, StockBucket } from 'flash-sale-kit'
import { expect, test } from 'vitest'
import { Relay } from '../../src/pipeline/relay.js'

/** What several activities owe, in memory, and a relay over it whose broker answers as `send` says. */
function office(o: {
  readonly owed: Readonly<Record<string, readonly ('send' | 'close')[]>>
  readonly send: (batch: Batch, signal: AbortSignal) => Promise<Sent>
  /** Awaited before an activity says what it owes. */
  readonly take?: (activityId: string) => Promise<void>
}) {
  const owed = Object.entries(o.owed).flatMap(([activityId, dues]) =>
    dues.map((due, i) => {
      const batch: Batch = {
        schema: 1,
        batchId: `${activityId}-${i}`,
        activityId,
        skuId: 's',
        reservations: [],
      }
      return { due, batch, bornAt: 0, leasedUntil: 0 }
    }),
  )
  const sent: string[] = []
  const closed: string[] = []
  const alerts: string[] = []
  const counts = { releases: 0 }
  const stock: Partial<StockBucket> = {
    async takeOwed(activityId, { leaseMs, limit }) {
      await o.take?.(activityId)
      const now = performance.now()
      const due = owed
        .filter((b) => b.batch.activityId === activityId && b.leasedUntil <= now)
        .sort((a, b) => a.leasedUntil - b.leasedUntil)
        .slice(0, limit)
      for (const batch of due) batch.leasedUntil = now + leaseMs
      return due satisfies readonly OwedBatch[]
    },
    async delivered({ batchId }, outcome) {
      if (outcome === 'unknown') return
      if (outcome === 'settled') closed.push(batchId)
      owed.splice(
        owed.findIndex((b) => b.batch.batchId === batchId),
        1,
      )
    },
    move: async () => [],
  }
  const orders: Partial<OrderBook> = {
    closeUnbooked: async () => [],
    async takeReleases() {
      counts.releases++
      return []
    },
  }
  const queue: Partial<Queue> = {
    send(batch, { signal }) {
      sent.push(batch.batchId)
      return o.send(batch, signal)
    },
  }
  const relay = new Relay(
    {
      stock: stock as StockBucket,
      orders: orders as OrderBook,
      queue: queue as Queue,
      activities: { live: async () => Object.keys(o.owed), load: async () => null },
      alert: (code) => alerts.push(code),
    },
    { leaseMs: 500, sendTimeoutMs: 50 },
  )
  return { relay, sent, closed, alerts, counts }
}

const many = <T>(n: number, what: T): T[] => Array.from({ length: n }, () => what)

/** A broker that is away answers nothing until the deadline. */
const silent = (_: Batch, signal: AbortSignal) =>
  new Promise<Sent>((resolve) => signal.addEventListener('abort', () => resolve('unknown')))

test('with the broker away a round ends, closes what is due everywhere, and returns units', async () => {
  const { relay, sent, closed, counts } = office({
    owed: { a: [...many(100, 'send' as const), 'close'], b: ['send', 'close'] },
    send: silent,
  })
  await relay.run()
  expect(sent.length).toBeGreaterThan(0)
  expect(sent.length).toBeLessThan(20)
  expect(closed.sort()).toEqual(['a-100', 'b-1'])
  expect(counts.releases).toBe(1)
  // What was not sent comes again.
  await sleep(550)
  const before = sent.length
  await relay.run()
  expect(sent.length).toBeGreaterThan(before)
})

test('a round ends before it would meet again what it sent itself', async () => {
  const { relay, sent } = office({
    owed: { a: many(100, 'send' as const) },
    send: async () => {
      await sleep(40)
      return 'unknown'
    },
  })
  await relay.run()
  expect(sent.length).toBeGreaterThan(0)
  expect(new Set(sent).size).toBe(sent.length)
  await relay.run()
  expect(new Set(sent).size, 'the next round goes on behind it').toBeGreaterThan(32)
})

test('an activity that cannot be served holds up neither the others nor the releases', async () => {
  let answer = () => {}
  const hangs = new Promise<void>((resolve) => {
    answer = resolve
  })
  const { relay, sent, alerts, counts } = office({
    owed: { a: ['send'], b: ['send'], c: ['send', 'close'] },
    send: async () => 'accepted',
    async take(activityId) {
      if (activityId === 'a') await hangs
      if (activityId === 'b') throw new Error('Connection is closed.')
    },
  })
  const round = relay.run()
  await sleep(50)
  expect(sent).toEqual(['c-0'])
  expect(alerts).toEqual(['relay-failed'])
  expect(counts.releases).toBe(1)
  answer()
  await round
  expect(sent).toEqual(['c-0', 'a-0'])
})

test('a send that throws leaves the closings and the releases', async () => {
  const { relay, closed, alerts, counts } = office({
    owed: { a: ['send', 'close'] },
    send: async () => Promise.reject(new Error('a broken queue')),
  })
  await relay.run()
  expect(alerts).toEqual(['relay-failed'])
  expect(closed).toEqual(['a-1'])
  expect(counts.releases).toBe(1)
})
