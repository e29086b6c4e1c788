import { setTimeout as sleep } from 'node:timers/promises'
import {
  ActivityGate,
  type Batch,
  type Delivered,
  FlashSaleError,
  MemoryQueue,
  type Move,
  movesOf,
  type RedisLike,
  StockBucket,
  TokenIssuer,
  type Verdict,
} from 'flash-sale-kit'
import type { Sale } from 'flash-sale-kit/http'
import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from 'flash-sale-kit/knex'
import type { Knex } from 'knex'

/** deduct -> enqueue -> confirm, put together from the primitives: a host's own pipeline, without the FlashSale class. */
export function wire(o: { redis: RedisLike; knex: Knex; tokenKey: Uint8Array }) {
  const orders = new KnexOrderBook({ knex: o.knex })
  const activities = new KnexActivityStore({ knex: o.knex })
  const control = new KnexActivityControl({ knex: o.knex })
  const gate = new ActivityGate({ activities, control })
  const tokens = new TokenIssuer({ keys: [{ kid: 'k1', secret: o.tokenKey }] })
  const queue = new MemoryQueue({
    onDead: ({ batchId }, why) => {
      console.error('dead message', batchId, why)
      const task = { kind: 'dead-message', ref: batchId, detail: { why } }
      orders.addManualTask(task).catch((error) => console.error('manual task', error))
    },
  })

  // Deduct, then enqueue. Units of a message that the queue refused would go back only behind CLOSED rows.
  const deliver = async (batch: Batch): Promise<Delivered> => {
    const sent = await queue.send(batch)
    if (sent !== 'rejected') return sent
    const verdicts = await orders.closeUnbooked(batch.reservations, 'send-rejected')
    return { closed: returned(movesOf(verdicts, batch.reservations)) }
  }
  const stock = new StockBucket({ redis: o.redis, deliver })

  // Confirm: the database decides, then Redis is told, then the message is acknowledged.
  const settle = async (batches: readonly Batch[], verdicts: readonly Verdict[]) => {
    const moves = movesOf(
      verdicts,
      batches.flatMap((b) => b.reservations),
    )
    await stock.move(moves)
    await orders.released(returned(moves))
    for (const batch of batches) await stock.delivered(batch, 'settled')
  }
  const consume = () =>
    queue.consume(
      async ({ batches, signal }) => {
        const reservations = batches.flatMap((b) => b.reservations)
        await settle(batches, await orders.confirm(reservations, signal))
        return 'ack'
      },
      { maxBatches: 16 },
    )

  // Relay: what a crash left owed is sent again, what nobody confirmed for ten minutes is closed, units go back.
  const relayOwed = async (activityId: string) => {
    for (const { batch, due } of await stock.takeOwed(activityId, { leaseMs: 5_000, limit: 32 }))
      if (due === 'send') await stock.delivered(batch, await deliver(batch))
      else await settle([batch], await orders.closeUnbooked(batch.reservations, 'lost'))
  }
  const relay = async () => {
    // One that cannot be served, or is not warmed yet, holds up neither the others nor the releases.
    for (const activityId of await activities.live())
      await relayOwed(activityId).catch((error) => {
        const isNotWarmed = error instanceof FlashSaleError && error.code === 'NOT_WARMED'
        if (!isNotWarmed) console.error('relay', activityId, error)
      })
    const owed = await orders.takeReleases({ limit: 256, leaseMs: 5_000 })
    try {
      await stock.move(
        owed.map(({ reservation, reason }) => ({ to: 'released', reservation, reason })),
      )
      await orders.released(owed.map((release) => release.reservation.orderNo))
    } catch (error) {
      await orders.retryReleases(owed, String(error))
    }
  }

  // Redis went back in time: what it would sell may be sold already. Opening again is for a person, after reconciling.
  const stopRewound = async (activityId: string) => {
    const audit = { actor: 'pipeline', reason: 'Redis went back in time' }
    const revision = await control.set(activityId, 'stopped', audit)
    gate.forget(activityId)
    await stock.control(activityId, 'stopped', revision)
  }

  const sale: Sale = {
    async token(activityId, { userId }) {
      const known = await gate.look(activityId)
      if ('status' in known) return known
      const terms = { expiresAt: known.activity.endsAt, epoch: known.control.tokenEpoch }
      const claims = { activityId, userId: String(userId) }
      return { status: 'issued', token: await tokens.issue(claims, terms) }
    },
    async submit({ buyer, token, ...wish }) {
      const known = await gate.look(wish.activityId)
      if ('status' in known) return known
      const shut = gate.refusal(known, Date.now())
      if (shut) return shut
      const { activityId, version, skus } = known.activity
      if (!skus.some((sku) => sku.skuId === wish.skuId)) return { status: 'not-found' }
      const userId = String(buyer.userId)
      const verified = await tokens.verify(token, { activityId, userId })
      if (verified.status !== 'valid') return verified
      const taken = await stock.deduct({ ...wish, userId, version, token: verified.proof })
      if (taken.status === 'rewound')
        await stopRewound(activityId).catch((error) => console.error('stop', activityId, error))
      if (taken.status !== 'reserved') return taken
      return { status: 'queued', orderNo: taken.reservation.orderNo, replayed: taken.replayed }
    },
    async result({ activityId, skuId, userId }) {
      const ref = { activityId, skuId }
      const record = await stock.reservation(ref, userId).catch(() => 'not-warmed') // Redis away
      const held = typeof record === 'string' ? null : record
      const row = held
        ? (await orders.find([held.orderNo]))[0]
        : await orders.findByBuyer(ref, String(userId))
      if (!row) return held ? { status: 'queued', orderNo: held.orderNo } : { status: 'none' }
      const { status, orderNo, reason } = row
      return status === 'closed' ? { status, orderNo, reason: reason ?? '' } : { status, orderNo }
    },
  }

  const stopping = new AbortController()
  let running: { consumer: ReturnType<typeof consume>; relaying: Promise<void> } | undefined
  return {
    sale,
    start() {
      const relaying = (async () => {
        while (!stopping.signal.aborted) {
          await relay().catch((error) => console.error('relay', error))
          await sleep(1_000, undefined, { signal: stopping.signal }).catch(() => {})
        }
      })()
      running = { consumer: consume(), relaying }
    },
    /** What the memory queue still holds stays owed in Redis; the relay of the next start sends it again. */
    async stop() {
      stopping.abort()
      await stock.stop()
      await Promise.all([running?.consumer.stop(), running?.relaying])
    },
  }
}

/** Numbers whose units go back. Those of a refunded order stay sold. */
function returned(moves: readonly Move[]): readonly string[] {
  return moves.filter((m) => m.to === 'released').map((m) => m.reservation.orderNo)
}
