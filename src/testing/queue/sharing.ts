import { deepEqual, equal, ok } from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { QueueCheck } from '../queue-suite.js'
import { type Bench, batchesOf, batchOf, idsOf } from './bench.js'

export const sharing: readonly QueueCheck[] = [
  {
    name: 'shares the messages between consumers, each to one',
    async check(bench) {
      const other = await bench.under.second()
      const batches = batchesOf(24)
      const slowly = () => sleep(10).then(() => 'ack' as const)
      const one = bench.consume(slowly, { maxBatches: 2 })
      const two = bench.consume(slowly, { on: other, maxBatches: 2 })
      await bench.send(...batches)
      await bench.until('all arrive', () => one.ids.length + two.ids.length >= 24)
      await bench.quiet()
      deepEqual(idsOf([...one.batches, ...two.batches]), idsOf(batches))
    },
  },
  {
    name: 'leaves a batch to its handler however long he takes',
    async check(bench) {
      const batches = batchesOf(2)
      await bench.send(...batches)
      const gate = bench.gate()
      const slow = bench.consume(() => gate.opened.then(() => 'ack' as const))
      await bench.until('they arrive', () => slow.ids.length === 2)
      const other = bench.consume(() => 'ack', { on: await bench.under.second() })
      await sleep(Math.max(300, bench.under.claimMs * 3))
      gate.open()
      await bench.quiet()
      deepEqual(other.ids, [])
      equal(slow.ids.length, 2)
    },
  },
  {
    name: 'C15: a consumer that joins takes nothing that another is handling',
    needs: ['competing'],
    async check(bench) {
      const batches = batchesOf(40)
      await bench.send(...batches)
      const gate = bench.gate()
      const first = bench.consume(
        () => (first.deliveries.length > 2 ? gate.opened : sleep(1)).then(() => 'ack' as const),
        { maxBatches: 5 },
      )
      await bench.until('the first is at work', () => first.deliveries.length === 3)
      const second = bench.consume(() => 'ack', {
        on: await bench.under.second(),
        maxBatches: 5,
      })
      const held = new Set(first.ids)
      const rest = batches.length - held.size
      await bench.until('the second does the rest', () => new Set(second.ids).size >= rest)
      gate.open()
      await first.consumer.stop()
      await bench.quiet()
      deepEqual(idsOf([...first.batches, ...second.batches]), idsOf(batches))
    },
  },
  {
    name: 'brings back what a crashed consumer held',
    needs: ['crash'],
    async check(bench) {
      const batches = batchesOf(5)
      await bench.send(...batches)
      const doomed = await bench.under.second()
      const gate = bench.gate()
      const lost = bench.consume(() => gate.opened.then(() => 'ack' as const), {
        on: doomed,
        maxBatches: 3,
      })
      await bench.until('it holds some', () => lost.ids.length > 0)
      await bench.under.crash?.(doomed)
      gate.open()
      const next = bench.consume(() => 'ack')
      await bench.until('all arrive at the next', () => new Set(next.ids).size === 5)
      await bench.quiet()
      deepEqual(idsOf(next.batches), idsOf(batches))
      const again = next.deliveries.filter((d) =>
        d.batches.some((b) => lost.ids.includes(b.batchId)),
      )
      ok(
        again.every((d) => d.attempt > 1),
        'it counts as a delivery, or a batch that kills its consumer would do so for ever',
      )
    },
  },
  {
    name: 'sets aside a batch that kills every consumer',
    needs: ['crash'],
    async check(bench) {
      const batch = batchOf()
      await bench.send(batch)
      for (let i = 0; i < bench.under.maxAttempts; i++) {
        const doomed = await bench.under.second()
        const gate = bench.gate()
        const seen = bench.consume(() => gate.opened.then(() => 'ack' as const), { on: doomed })
        await bench.until(`consumer ${i + 1} has it`, () => seen.ids.length > 0)
        await bench.under.crash?.(doomed)
        gate.open()
      }
      const next = bench.consume(() => 'ack')
      await bench.until('it is set aside', () => bench.under.dead.length > 0)
      deepEqual(bench.under.dead, [batch])
      deepEqual(next.ids, [])
    },
  },
  {
    name: 'V3: loses nothing while consumers come, go, fail and crash at random',
    async check(bench) {
      const batches = batchesOf(150)
      const acked = new Set<string>()
      const random = randomFrom(20_261_111)
      const sending = (async () => {
        for (const batch of batches) {
          await bench.send(batch)
          if (random() < 0.2) await sleep(2)
        }
      })()
      const more = () => acked.size < batches.length
      await Promise.all([sending, ...[0, 1].map(() => churn(bench, acked, random, more))])
      deepEqual([...acked].sort(), idsOf(batches))
      deepEqual(bench.under.dead, [])
    },
  },
]

/** Consumers that answer at random, are stopped at random or crash, one after the other, until all is acknowledged. */
async function churn(
  bench: Bench,
  acked: Set<string>,
  random: () => number,
  more: () => boolean,
): Promise<void> {
  const end = performance.now() + bench.under.patienceMs * 5
  let crashes = bench.under.crash && bench.has('crash') ? 1 : 0
  let queue = await bench.under.second()
  while (more() && performance.now() < end) {
    let crashed = false
    const { consumer } = bench.consume(
      async ({ batches, attempt, signal }) => {
        await sleep(random() * 6)
        // Only at first: two failures and two crashes would set a batch aside.
        if (attempt === 1 && random() < 0.1) throw new Error('at random')
        if (attempt === 1 && signal.aborted) return 'retry'
        if (!crashed) for (const { batchId } of batches) acked.add(batchId)
        return 'ack'
      },
      { on: queue, maxBatches: 4 },
    )
    await sleep(random() * Math.max(40, (bench.under.joinMs ?? 0) * 2))
    if (crashes > 0 && acked.size > 20) {
      crashes--
      crashed = true
      await bench.under.crash?.(queue)
      queue = await bench.under.second()
    }
    if (random() < 0.3) await consumer.pause()
    await consumer.stop()
  }
  ok(!more(), 'some were never acknowledged')
}

/** Numbers from 0 to 1 that are the same in each run (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}
