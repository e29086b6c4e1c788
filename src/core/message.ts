import * as check from './check.js'
import { FlashSaleError } from './errors.js'
import type { Batch, Reservation } from './types.js'

/** A batch closes at 256 KiB of reservations; ids and MAC around them stay under 1 KiB. */
export const MAX_MESSAGE_BYTES = 262_144 + 1_024

/** The text of a batch as it travels; null when it is larger than any queue is asked to carry. */
export function messageText(batch: Batch): string | null {
  check.object(batch, 'batch')
  check.id(batch.batchId, 'batch.batchId')
  check.array(batch.reservations, 'batch.reservations')
  let text: string
  try {
    text = JSON.stringify(batch)
  } catch (cause) {
    throw new FlashSaleError('BAD_INPUT', 'batch must be JSON', { cause })
  }
  return Buffer.byteLength(text) > MAX_MESSAGE_BYTES ? null : text
}

/**
 * Reads a batch message. Anything but a whole, well-typed batch of schema 1 throws `BAD_MESSAGE`: a bare 19-digit number
 * where an id belongs is refused, never rounded. What is alike in all reservations may stand in the batch alone, as in
 * the messages that StockBucket stores.
 */
export function parseBatch(text: string): Batch {
  try {
    const raw = JSON.parse(text) as Batch & Pick<Reservation, 'bucket' | 'version'>
    check.object(raw, 'batch')
    if (raw.schema !== 1) check.fail('BAD_INPUT', 'schema', '1', raw.schema)
    const { activityId, skuId } = check.skuRef(raw)
    const batchId = check.id(raw.batchId, 'batchId')
    if (!Array.isArray(raw.reservations) || raw.reservations.length > 1000)
      check.fail('BAD_INPUT', 'reservations', 'an array of at most 1000', raw.reservations)
    const { bucket, version } = raw
    const reservations = raw.reservations.map((r) => {
      const reservation = check.reservation({ activityId, skuId, bucket, version, ...r })
      if (reservation.activityId !== activityId || reservation.skuId !== skuId)
        check.fail(
          'BAD_INPUT',
          'reservation',
          `of ${activityId} ${skuId} like its batch`,
          reservation.orderNo,
        )
      return reservation
    })
    const mac = raw.mac === undefined ? {} : { mac: check.text(raw.mac, 'mac', 200) }
    return { schema: 1, batchId, activityId, skuId, reservations, ...mac }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new FlashSaleError('BAD_MESSAGE', `not a batch of schema 1: ${why}`, { cause })
  }
}
