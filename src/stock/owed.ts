import { FlashSaleError } from '../core/errors.js'
import { parseBatch } from '../core/message.js'
import type { Batch, Reservation } from '../core/types.js'
import { tagKeys } from '../redis/keys.js'
import type { ScriptRunner } from '../redis/run-script.js'
import { delivered, takeOwed } from '../redis/scripts.generated.js'
import { lookUp } from './records.js'

/** A batch that the queue may not have (`send`), or that nobody confirmed for `closeAfterMs` (`close`). */
export interface OwedBatch {
  readonly due: 'send' | 'close'
  /** Only reservations still held. */
  readonly batch: Batch
  /** When it was deducted, by Redis' clock, epoch ms. */
  readonly bornAt: number
}

/** The messages that Redis remembers until somebody says that they arrived. */
export class OwedBatches {
  constructor(
    private readonly runner: ScriptRunner,
    private readonly closeAfterMs: number,
  ) {}

  async take(
    activityId: string,
    o: { leaseMs: number; limit: number },
  ): Promise<readonly OwedBatch[]> {
    const args = { leaseMs: o.leaseMs, closeAfterMs: this.closeAfterMs, limit: o.limit }
    const reply = await this.runner.run(takeOwed, tagKeys(activityId), args)
    if (reply[0] === -1)
      throw new FlashSaleError(
        'NOT_WARMED',
        `the keys of ${activityId} are missing or not of one piece`,
      )
    const owed: OwedBatch[] = []
    for (let i = 1; i + 2 < reply.length; i += 3) {
      const due = reply[i] === 'close' ? 'close' : 'send'
      const batch = await this.stillHeld(parseBatch(String(reply[i + 2])))
      if (batch) owed.push({ due, batch, bornAt: Number(reply[i + 1]) })
    }
    return owed
  }

  async strike(
    batch: Pick<Batch, 'activityId' | 'batchId'>,
    outcome: 'accepted' | 'settled',
  ): Promise<void> {
    const args = { batchId: batch.batchId, outcome, closeAfterMs: this.closeAfterMs }
    const [code] = await this.runner.run(delivered, tagKeys(batch.activityId), args)
    if (code === -1)
      throw new FlashSaleError(
        'NOT_WARMED',
        `the keys of ${batch.activityId} are missing or not of one piece`,
      )
  }

  /** The stored message holds all candidates; winners bear their number in the record. A batch with none held is done. */
  private async stillHeld(batch: Batch): Promise<Batch | null> {
    const records = await lookUp(this.runner, batch, batch.reservations)
    if (records === 'not-warmed') return null
    const reservations = batch.reservations.filter(
      (_: Reservation, i) => records[i]?.state === 'held',
    )
    if (reservations.length > 0) return { ...batch, reservations }
    await this.strike(batch, 'settled')
    return null
  }
}
