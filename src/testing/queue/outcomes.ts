import { deepEqual, equal, ok } from 'node:assert/strict'
import type { Batch } from '../../core/types.js'
import type { QueueCheck } from '../queue-suite.js'
import { batchesOf, batchOf, idsOf } from './bench.js'

const text = (batch: Batch, change: (raw: Record<string, unknown>) => void) => {
  const raw = JSON.parse(JSON.stringify(batch))
  change(raw)
  return JSON.stringify(raw)
}

/** What a stranger, an old version or a broken disk may have put there. */
const POISON: readonly string[] = [
  'no JSON',
  '{}',
  'null',
  '[]',
  '\0\u{1f525}',
  text(batchOf(), (raw) => {
    raw['schema'] = 2
  }),
  // C11: a Java service wrote its 64-bit id as a bare number, which JSON.parse rounds.
  JSON.stringify(batchOf()).replace(/"userId":"[^"]+"/, '"userId":1849302938475629013'),
]

export const outcomes: readonly QueueCheck[] = [
  {
    name: 'ack: does not deliver again, also not to the next consumer',
    async check(bench) {
      await bench.send(...batchesOf(3))
      const first = bench.consume(() => 'ack')
      await bench.until('all arrive', () => first.ids.length >= 3)
      await first.consumer.stop()
      const next = bench.consume(() => 'ack')
      await bench.quiet()
      equal(first.ids.length, 3)
      deepEqual(next.ids, [])
    },
  },
  {
    name: 'retry: delivers again after a pause, with a higher attempt',
    async check(bench) {
      const batch = batchOf()
      await bench.send(batch)
      const at: number[] = []
      const seen = bench.consume(({ attempt }) => {
        at.push(performance.now())
        return attempt === 1 ? 'retry' : 'ack'
      })
      await bench.until('it comes again', () => seen.deliveries.length >= 2)
      await bench.quiet()
      deepEqual(
        seen.deliveries.map((d) => d.attempt),
        [1, 2],
      )
      deepEqual(seen.batches[1], batch)
      ok((at[1] ?? 0) - (at[0] ?? 0) >= 5, 'without a pause a broken database gets no rest')
      deepEqual(bench.under.dead, [])
    },
  },
  {
    name: 'retry: sets a message aside after maxAttempts deliveries',
    async check(bench) {
      const batch = batchOf()
      await bench.send(batch)
      const seen = bench.consume(() => 'retry')
      await bench.until('it is set aside', () => bench.under.dead.length > 0)
      await bench.quiet()
      const counted = Array.from({ length: bench.under.maxAttempts }, (_, i) => i + 1)
      deepEqual(
        seen.deliveries.map((d) => d.attempt),
        counted,
      )
      deepEqual(bench.under.dead, [batch])
    },
  },
  {
    name: 'counts a throw as retry',
    async check(bench) {
      await bench.send(batchOf())
      const seen = bench.consume(({ attempt }) => {
        if (attempt === 1) throw new Error('a handler that throws')
        return 'ack'
      })
      await bench.until('it comes again', () => seen.deliveries.length >= 2)
      await bench.quiet()
      equal(seen.deliveries.length, 2)
    },
  },
  {
    name: 'counts what is no answer as retry',
    async check(bench) {
      const wrong: readonly unknown[] = [undefined, null, 1, 'done', {}, [], ['ack', 'ack'], ['no']]
      const batches = batchesOf(wrong.length)
      await bench.send(...batches)
      const seen = bench.consume(
        ({ batches: [batch], attempt }) => {
          const which = batches.findIndex((b) => b.batchId === batch?.batchId)
          return attempt === 1 ? (wrong[which] as 'ack') : 'ack'
        },
        { maxBatches: 1 },
      )
      await bench.until('all come again', () => seen.ids.length >= 2 * wrong.length)
      await bench.quiet()
      deepEqual([...seen.ids].sort(), [...idsOf(batches), ...idsOf(batches)].sort())
      deepEqual(bench.under.dead, [])
    },
  },
  {
    name: 'dead: sets aside at once, and the others go on',
    async check(bench) {
      const [bad, ...good] = batchesOf(5)
      await bench.send(...(bad ? [bad] : []), ...good)
      const seen = bench.consume(
        ({ batches }) => (batches[0]?.batchId === bad?.batchId ? 'dead' : 'ack'),
        { maxBatches: 1 },
      )
      await bench.until('all arrive', () => new Set(seen.ids).size === 5)
      await bench.until('it is set aside', () => bench.under.dead.length > 0)
      await bench.quiet()
      equal(seen.ids.length, 5)
      deepEqual(bench.under.dead, [bad])
    },
  },
  {
    name: 'takes an answer for each batch',
    async check(bench) {
      const batches = batchesOf(9)
      const [dead, again] = [batches[2], batches[5]]
      await bench.send(...batches)
      let tried = 0
      const acked: Batch[] = []
      const seen = bench.consume((d) =>
        d.batches.map((b) => {
          if (b.batchId === dead?.batchId) return 'dead'
          if (b.batchId === again?.batchId && ++tried === 1) return 'retry'
          acked.push(b)
          return 'ack'
        }),
      )
      await bench.until('all but one are acknowledged', () => acked.length >= 8)
      await bench.until('it is set aside', () => bench.under.dead.length > 0)
      await bench.quiet()
      equal(seen.ids.length, 10, 'only one was delivered twice')
      deepEqual(idsOf(acked), idsOf(batches.filter((b) => b !== dead)))
      deepEqual(bench.under.dead, [dead])
    },
  },
  {
    name: 'sets aside what is no batch, and the others go on',
    needs: ['inject'],
    async check(bench) {
      const good = batchesOf(POISON.length + 1)
      await bench.send(...good.slice(0, 1))
      for (const [i, poison] of POISON.entries()) {
        await bench.under.inject?.(poison)
        await bench.send(...good.slice(i + 1, i + 2))
      }
      const seen = bench.consume(() => 'ack')
      await bench.until('the batches arrive', () => new Set(seen.ids).size === good.length)
      await bench.until('the rest is set aside', () => bench.under.dead.length >= POISON.length)
      await bench.quiet()
      deepEqual(idsOf(seen.batches), idsOf(good))
      deepEqual([...bench.under.dead].sort(), [...POISON].sort())
      const lag = await bench.queue.lag()
      if (lag !== 'unknown') equal(lag.messages, 0)
    },
  },
]
