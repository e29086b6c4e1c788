import * as check from '../core/check.js'
import { type ErrorCode, FlashSaleError } from '../core/errors.js'
import { parseBatch } from '../core/message.js'
import type { Batch, Delivered } from '../core/types.js'
import { tagKeys } from '../redis/keys.js'
import type { ScriptRunner } from '../redis/run-script.js'
import { delivered, overdue, takeOwed } from '../redis/scripts.generated.js'
import { moveAll } from './moves.js'
import { lookUp } from './records.js'
import { warmed } from './warmed.js'

/** A batch that the queue may not have (`send`), or that nobody confirmed for `closeAfterMs` (`close`). */
export interface OwedBatch {
  readonly due: 'send' | 'close'
  /** Only reservations still held. */
  readonly batch: Batch
  /** When it was deducted, by Redis' clock, epoch ms. */
  readonly bornAt: number
}

/** A batch whose numbers should all be decided by now. */
export interface OverdueBatch {
  readonly batchId: string
  /** Since it was deducted, by Redis' clock. */
  readonly ageMs: number
}

/** The first due first, so the overdue are among them; more would cost a script more than 1 ms. */
const LOOKED_AT = 500

/** What a host says became of a batch; anything else is refused, for it would be taken for "nothing left to watch". */
export function checkDelivered(outcome: Delivered): Delivered {
  if (typeof outcome !== 'object' || outcome === null)
    return check.oneOf(outcome, 'outcome', ['accepted', 'unknown', 'settled'] as const)
  check.array(outcome.closed, 'outcome.closed')
  return { closed: outcome.closed.map((orderNo) => check.id(orderNo, 'outcome.closed')) }
}

/** The messages that Redis remembers until somebody says that they arrived. */
export class OwedBatches {
  constructor(
    private readonly runner: ScriptRunner,
    private readonly closeAfterMs: number,
    private readonly onError: (error: unknown) => void,
  ) {}

  /** A batch that cannot be read is reported and stays owed; it does not hold up the others. */
  async take(
    activityId: string,
    o: { leaseMs: number; limit: number },
  ): Promise<readonly OwedBatch[]> {
    const args = { leaseMs: o.leaseMs, closeAfterMs: this.closeAfterMs, limit: o.limit }
    const reply = warmed(await this.runner.run(takeOwed, tagKeys(activityId), args), activityId)
    const owed: OwedBatch[] = []
    for (let i = 1; i + 3 < reply.length; i += 4) {
      const [due, batchId, bornAt, message] = reply.slice(i, i + 4).map(String) as Claimed
      try {
        if (due === 'lost')
          throw new FlashSaleError('CORRUPT', 'its message is gone; it is owed no longer')
        const batch = await this.stillHeld(activityId, batchId, parseBatch(message))
        if (batch) owed.push({ due, batch, bornAt: Number(bornAt) })
      } catch (cause) {
        if (!(cause instanceof FlashSaleError) || !OF_THE_BATCH.has(cause.code)) throw cause
        const what = `batch ${batchId} of ${activityId}: ${cause.message}`
        this.onError(new FlashSaleError(cause.code, what, { cause }))
      }
    }
    return owed
  }

  /** Batches that nobody has closed though they were due to be so long ago. Claims nothing. */
  async overdue(activityId: string, lateMs: number): Promise<readonly OverdueBatch[]> {
    const args = { olderThanMs: this.closeAfterMs + lateMs, limit: LOOKED_AT }
    const reply = warmed(await this.runner.run(overdue, tagKeys(activityId), args), activityId)
    const words = String(reply[1]).split(' ')
    return words.flatMap((batchId, i) =>
      i % 2 === 0 && batchId !== '' ? [{ batchId, ageMs: Number(words[i + 1]) }] : [],
    )
  }

  /** What became of a batch, first to its reservations, then to the batch. */
  async settle(batch: Batch, outcome: Delivered): Promise<void> {
    if (typeof outcome === 'object') {
      const closed = new Set(outcome.closed)
      await moveAll(
        this.runner,
        batch.reservations.map((reservation) =>
          closed.has(reservation.orderNo)
            ? { to: 'released', reservation, reason: 'send-rejected' }
            : // Not closed though every number has a row: another path has confirmed it, and may not have told Redis.
              { to: 'confirmed', reservation },
        ),
      )
    }
    if (outcome === 'unknown') return
    await this.strike(batch, outcome === 'accepted' ? 'accepted' : 'settled')
  }

  private async strike(
    batch: Pick<Batch, 'activityId' | 'batchId'>,
    outcome: 'accepted' | 'settled',
  ): Promise<void> {
    const args = { batchId: batch.batchId, outcome, closeAfterMs: this.closeAfterMs }
    warmed(await this.runner.run(delivered, tagKeys(batch.activityId), args), batch.activityId)
  }

  /** The stored message holds all candidates; winners bear their number in the record. A batch with none held is done. */
  private async stillHeld(
    activityId: string,
    batchId: string,
    batch: Batch,
  ): Promise<Batch | null> {
    if (batch.activityId !== activityId || batch.batchId !== batchId)
      throw new FlashSaleError('CORRUPT', `its message is ${batch.batchId} of ${batch.activityId}`)
    const records = await lookUp(this.runner, batch, batch.reservations)
    if (records === 'not-warmed')
      throw new FlashSaleError('NOT_WARMED', `the keys of ${batch.skuId} are not of one piece`)
    const strange = batch.reservations.filter((_, i) => records[i] === 'strange')
    for (const { userId } of strange)
      this.onError(new FlashSaleError('CORRUPT', `the record of buyer ${userId} cannot be read`))
    const reservations = batch.reservations.filter((_, i) => {
      const record = records[i]
      return record && record !== 'strange' && record.state === 'held'
    })
    if (reservations.length > 0) return { ...batch, reservations }
    if (strange.length === 0) await this.strike(batch, 'settled')
    return null
  }
}

/** What is wrong with one batch, and no reason to leave the others. */
const OF_THE_BATCH: ReadonlySet<ErrorCode> = new Set(['CORRUPT', 'BAD_MESSAGE', 'NOT_WARMED'])

type Claimed = [due: 'send' | 'close' | 'lost', batchId: string, bornAt: string, message: string]
