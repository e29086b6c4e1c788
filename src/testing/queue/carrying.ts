import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import type { Reservation } from '../../core/types.js'
import type { QueueCheck } from '../queue-suite.js'
import { batchesOf, batchOf, batchOfBytes, idsOf, reservationOf } from './bench.js'

/** Ids that a database or a JSON reader is tempted to change: case, digits, 64 bits, quotes. */
const ODD: readonly Partial<Reservation>[] = [
  { userId: '1849302938475629013' },
  { userId: '1849302938475629014' },
  { userId: '007' },
  { userId: '7' },
  { userId: '1e5' },
  { userId: 'User' },
  { userId: 'user' },
  { userId: '"\\/{}:#*\'`$' },
  { userId: '~'.repeat(64), orderNo: '!'.repeat(64) },
  { version: '0x10', quantity: 1_000 },
]

const PAYLOADS: readonly Reservation['payload'][] = [
  null,
  '',
  0,
  false,
  [],
  {},
  'nul \0, line feed \n, quote ", backslash \\, separator \u2028',
  'half a pair \ud83d, a pair 🔥, ä as a\u0308, 秒杀, zero\u200bwidth',
  { z: 1, a: [1.5, -0.25, 9_007_199_254_740_991, { 'key with "': 'ä' }] },
  { id: '9007199254740993' },
]

export const carrying: readonly QueueCheck[] = [
  {
    name: 'carries a batch whole',
    async check(bench) {
      const batch = batchOf([reservationOf({ quantity: 3 }), reservationOf()])
      await bench.send(batch)
      const seen = bench.consume(() => 'ack')
      await bench.until('it arrives', () => seen.batches.length > 0)
      deepEqual(seen.batches[0], batch)
      equal(seen.deliveries[0]?.attempt, 1)
      ok(seen.deliveries[0]?.signal instanceof AbortSignal, 'a delivery has a signal')
    },
  },
  {
    name: 'C10 C11: carries ids and payloads byte for byte',
    async check(bench) {
      const reservations = [
        ...ODD.map((o) => reservationOf(o)),
        ...PAYLOADS.map((payload) => reservationOf(payload === undefined ? {} : { payload })),
      ]
      const batch = batchOf(reservations)
      await bench.send(batch)
      const seen = bench.consume(() => 'ack')
      await bench.until('it arrives', () => seen.batches.length > 0)
      for (const [i, r] of reservations.entries()) deepEqual(seen.batches[0]?.reservations[i], r)
      deepEqual(seen.batches[0], batch)
    },
  },
  {
    name: 'carries what was sent, whatever the sender does with it later',
    async check(bench) {
      const payload = { address: 'before' }
      const batch = batchOf([reservationOf({ payload })])
      const asSent = structuredClone(batch)
      await bench.send(batch)
      payload.address = 'after'
      const seen = bench.consume(() => 'ack')
      await bench.until('it arrives', () => seen.batches.length > 0)
      deepEqual(seen.batches[0], asSent)
    },
  },
  {
    name: 'carries a MAC along',
    async check(bench) {
      const batch = { ...batchOf(), mac: '1.k1.MTIzNDU2Nzg5MA' }
      await bench.send(batch)
      const seen = bench.consume(() => 'ack')
      await bench.until('it arrives', () => seen.batches.length > 0)
      deepEqual(seen.batches[0], batch)
    },
  },
  {
    name: 'hands over what was sent before anybody consumed, and what is sent later',
    async check(bench) {
      const [before, later] = [batchesOf(3), batchesOf(3)]
      await bench.send(...before)
      const seen = bench.consume(() => 'ack')
      await bench.until('the first arrive', () => seen.ids.length >= 3)
      await bench.send(...later)
      await bench.until('the later arrive', () => seen.ids.length >= 6)
      deepEqual(idsOf(seen.batches), idsOf([...before, ...later]))
    },
  },
  {
    name: 'hands over several batches at once, never more than maxBatches',
    async check(bench) {
      const batches = batchesOf(20)
      await bench.send(...batches)
      const seen = bench.consume(() => 'ack', { maxBatches: 4 })
      await bench.until('all arrive', () => new Set(seen.ids).size === 20)
      const sizes = seen.deliveries.map((d) => d.batches.length)
      ok(Math.max(...sizes) <= 4, `a hand-over had ${Math.max(...sizes)} batches`)
      ok(Math.min(...sizes) >= 1, 'a hand-over was empty')
      ok(Math.max(...sizes) > 1, 'commits cannot be grouped: every hand-over had one batch')
    },
  },
  {
    name: 'hands over nothing while there is nothing',
    async check(bench) {
      const seen = bench.consume(() => 'ack')
      await bench.quiet()
      deepEqual(seen.deliveries, [])
    },
  },
  {
    name: 'runs one hand-over of a consumer after the other',
    async check(bench) {
      let running = 0
      let most = 0
      await bench.send(...batchesOf(6))
      const seen = bench.consume(
        async (): Promise<'ack'> => {
          most = Math.max(most, ++running)
          await new Promise((resolve) => setTimeout(resolve, 20))
          running--
          return 'ack'
        },
        { maxBatches: 1 },
      )
      await bench.until('all arrive', () => new Set(seen.ids).size === 6)
      equal(most, 1)
    },
  },
  {
    name: 'takes the same batch twice without harm',
    async check(bench) {
      const batch = batchOf()
      await bench.send(batch, batch)
      const seen = bench.consume(() => 'ack')
      await bench.until('it arrives', () => seen.batches.length > 0)
      await bench.quiet()
      ok(seen.batches.length <= 2)
      for (const copy of seen.batches) deepEqual(copy, batch)
      deepEqual(bench.under.dead, [])
    },
  },
  {
    name: 'carries a batch of 256 KiB and refuses a larger one before sending it',
    async check(bench) {
      const signal = AbortSignal.timeout(10_000)
      const large = batchOfBytes(220_000)
      await bench.send(large)
      equal(await bench.queue.send(batchOfBytes(300_000), { signal }), 'rejected')
      const seen = bench.consume(() => 'ack')
      await bench.until('the one that fits arrives', () => seen.batches.length > 0)
      await bench.quiet()
      deepEqual(idsOf(seen.batches), idsOf([large]))
    },
  },
  {
    name: 'never calls a send with an aborted signal accepted, and does not throw',
    async check(bench) {
      const sent = await bench.queue.send(batchOf(), { signal: AbortSignal.abort() })
      notEqual(sent, 'accepted')
      const soon = new AbortController()
      const sending = bench.queue.send(batchOf(), { signal: soon.signal })
      soon.abort()
      ok(['accepted', 'rejected', 'unknown'].includes(await sending))
    },
  },
  {
    name: 'C12: counts messages in numbers, never below zero',
    needs: ['lag'],
    async check(bench) {
      const lag = async () => {
        const known = await bench.queue.lag()
        if (known === 'unknown') return null
        ok(Number.isSafeInteger(known.messages) && known.messages >= 0, `${known.messages}`)
        const age = known.oldestAgeMs
        ok(age === null || (typeof age === 'number' && age >= 0), `oldestAgeMs ${age}`)
        if (bench.has('age'))
          equal(age === null, known.messages === 0, 'an age if and only if there is a message')
        return known
      }
      const isAt = (messages: number) => async () => (await lag())?.messages === messages
      await bench.until('it is 0 at first', isAt(0))
      await bench.send(...batchesOf(5))
      await bench.until('it is 5', isAt(5))
      const before = (await lag())?.oldestAgeMs ?? 0
      await bench.quiet()
      if (bench.has('age')) ok(((await lag())?.oldestAgeMs ?? 0) > before, 'the oldest grows older')
      const gate = bench.gate()
      bench.consume(() => gate.opened.then(() => 'ack' as const))
      await bench.quiet()
      equal((await lag())?.messages, 5, 'what is being handled is not acknowledged')
      gate.open()
      await bench.until('it is 0 again', isAt(0))
    },
  },
]
