import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import type { QueueCheck } from '../queue-suite.js'
import { batchesOf, batchOf, idsOf } from './bench.js'

export const stopping: readonly QueueCheck[] = [
  {
    name: 'C15: pause resolves with the end of the hand-over that runs, and no other begins; resume goes on',
    async check(bench) {
      const batches = batchesOf(6)
      const gate = bench.gate()
      await bench.send(...batches)
      const seen = bench.consume(() => gate.opened.then(() => 'ack' as const), { maxBatches: 2 })
      await bench.until('the first arrive', () => seen.deliveries.length === 1)
      let paused = false
      const pausing = seen.consumer.pause().then(() => {
        paused = true
      })
      await bench.quiet()
      equal(paused, false, 'it waits for the handler')
      gate.open()
      await pausing
      await bench.quiet()
      equal(seen.deliveries.length, 1)
      seen.consumer.resume()
      await bench.until('the others arrive', () => new Set(seen.ids).size === 6)
      deepEqual(idsOf(seen.batches), idsOf(batches))
    },
  },
  {
    name: 'C15: pause from within the handler stops within that hand-over',
    async check(bench) {
      await bench.send(...batchesOf(8))
      const seen = bench.consume(
        () => {
          if (seen.deliveries.length === 2) void seen.consumer.pause()
          return 'ack'
        },
        { maxBatches: 1 },
      )
      await bench.until('two arrive', () => seen.deliveries.length >= 2)
      await bench.quiet()
      equal(seen.deliveries.length, 2)
      seen.consumer.resume()
      await bench.until('the others arrive', () => new Set(seen.ids).size === 8)
    },
  },
  {
    name: 'keeps what is sent to a paused consumer',
    async check(bench) {
      const seen = bench.consume(() => 'ack')
      await seen.consumer.pause()
      await seen.consumer.pause()
      const batches = batchesOf(3)
      await bench.send(...batches)
      await bench.quiet()
      deepEqual(seen.deliveries, [])
      seen.consumer.resume()
      seen.consumer.resume()
      await bench.until('they arrive', () => new Set(seen.ids).size === 3)
      equal(seen.ids.length, 3)
    },
  },
  {
    name: 'stop aborts the signal, lets the handler end, and hands over nothing more',
    async check(bench) {
      await bench.send(...batchesOf(6))
      const gate = bench.gate()
      let ended = 0
      const seen = bench.consume(
        async (): Promise<'ack'> => {
          await gate.opened
          ended++
          return 'ack'
        },
        { maxBatches: 1 },
      )
      await bench.until('the first arrives', () => seen.deliveries.length === 1)
      let stopped = false
      const stops = [seen.consumer.stop(), seen.consumer.stop()].map((stop) =>
        stop.then(() => {
          stopped = true
        }),
      )
      equal(seen.deliveries[0]?.signal.aborted, true)
      await bench.quiet()
      equal(stopped, false, 'it waits for the handler')
      gate.open()
      await Promise.all(stops)
      equal(ended, 1)
      await bench.quiet()
      equal(seen.deliveries.length, 1)
      await seen.consumer.stop()
      const next = bench.consume(() => 'ack')
      await bench.until('the others go to the next', () => new Set(next.ids).size >= 5)
      await bench.quiet()
      ok(!next.ids.includes(seen.ids[0] ?? ''), 'an answer given while stopping counts')
    },
  },
  {
    name: 'stops a paused consumer, and one that never got anything',
    async check(bench) {
      const paused = bench.consume(() => 'ack')
      await paused.consumer.pause()
      await paused.consumer.stop()
      await bench.consume(() => 'ack').consumer.stop()
      await bench.send(batchOf())
      await bench.quiet()
      deepEqual(paused.deliveries, [])
    },
  },
  {
    name: 'a batch whose handler gave up at the signal goes to the next consumer',
    async check(bench) {
      const batch = batchOf()
      await bench.send(batch)
      const first = bench.consume(
        ({ signal }) =>
          new Promise((resolve) => signal.addEventListener('abort', () => resolve('retry'))),
      )
      await bench.until('it arrives', () => first.deliveries.length === 1)
      await first.consumer.stop()
      const next = bench.consume(() => 'ack')
      await bench.until('it comes again', () => next.deliveries.length === 1)
      deepEqual(next.batches[0], batch)
    },
  },
  {
    name: 'stop of the queue ends its consumers, waits at most drainMs, and can be repeated',
    async check(bench) {
      await bench.send(...batchesOf(4))
      const gate = bench.gate()
      const hung = bench.consume(() => gate.opened.then(() => 'ack' as const), { maxBatches: 1 })
      await bench.until('one arrives', () => hung.deliveries.length === 1)
      const begun = performance.now()
      await Promise.all([bench.queue.stop({ drainMs: 100 }), bench.queue.stop({ drainMs: 100 })])
      const tookMs = performance.now() - begun
      ok(tookMs < 100 + bench.under.patienceMs, `stop took ${Math.round(tookMs)} ms`)
      gate.open()
      await bench.quiet()
      equal(hung.deliveries.length, 1)
      await bench.queue.stop()
      await bench.queue[Symbol.asyncDispose]()
    },
  },
  {
    name: 'a stopped queue accepts nothing and consumes nothing',
    async check(bench) {
      await bench.queue.stop()
      const sent = await bench.queue.send(batchOf(), { signal: AbortSignal.timeout(1_000) })
      notEqual(sent, 'accepted')
      let refused: unknown
      try {
        bench.queue.consume(async () => 'ack', { maxBatches: 1 })
      } catch (error) {
        refused = error
      }
      equal((refused as { code?: unknown } | undefined)?.code, 'STOPPED')
    },
  },
]
