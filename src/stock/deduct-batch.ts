import { FlashSaleError } from '../core/errors.js'
import { newOrderNo } from '../core/order-no.js'
import type { Batch, Deducted, Refusal, Reservation, SkuRef, TokenProof } from '../core/types.js'
import type { ScriptReply } from '../redis/run-script.js'
import { heldRecord, parseRecord } from './record.js'

/** A checked request on its way into a batch. */
export interface Candidate {
  readonly reservation: Reservation
  /** The payload as JSON text, to compare and to measure. */
  readonly payload: string | undefined
  readonly token: TokenProof | undefined
  /** The host named the order number itself, so only a request of that number is equal. */
  readonly ownNumber: boolean
}

export type DeductAnswer = Deducted | Refusal | FlashSaleError

/** Equal requests of a buyer are one request: they share the answer, and no second place in a batch is spent. */
export function sameRequest(a: Candidate, b: Candidate): boolean {
  return (
    a.reservation.userId === b.reservation.userId &&
    a.reservation.quantity === b.reservation.quantity &&
    a.token?.tokenId === b.token?.tokenId &&
    a.token?.issue === b.token?.issue &&
    a.payload === b.payload &&
    a.ownNumber === b.ownNumber &&
    (!a.ownNumber || a.reservation.orderNo === b.reservation.orderNo)
  )
}

/**
 * What a candidate adds to the message to the queue at most: 180 bytes for names and figures, ids that may need escaping,
 * and the payload, which alone has characters of several bytes.
 */
export function bytesOf({ reservation: r, payload }: Candidate): number {
  const ids =
    r.orderNo.length + r.activityId.length + r.skuId.length + r.userId.length + r.version.length
  return 180 + 2 * ids + (payload === undefined ? 0 : Buffer.byteLength(payload))
}

/**
 * The message of a batch as Redis stores it: all candidates, and once what is alike in all of them, which halves it. The
 * winners are those whose record bears their order number.
 */
export function batchMessage(
  ref: SkuRef,
  version: string,
  batchId: string,
  candidates: readonly Candidate[],
): string {
  const common = JSON.stringify({ schema: 1, batchId, ...ref, bucket: 0, version })
  const reservations = candidates.map(({ reservation: r, payload }) => {
    const ids = `{"orderNo":${quoted(r.orderNo)},"userId":${quoted(r.userId)}`
    const rest = payload === undefined ? '' : `,"payload":${payload}`
    return `${ids},"quantity":${r.quantity},"reservedAt":${r.reservedAt}${rest}}`
  })
  return `${common.slice(0, -1)},"reservations":[${reservations.join(',')}]}`
}

/** An id as JSON; of its alphabet only two characters need escaping, and hardly any id has them. */
function quoted(id: string): string {
  return /["\\]/.test(id) ? JSON.stringify(id) : `"${id}"`
}

/** The script's arguments for the candidates, and the keys of their stored tokens behind the six of the tag. */
export function candidateArgs(
  candidates: readonly Candidate[],
  tokenKeyOf: (tokenId: string) => string,
): { readonly args: string[]; readonly keys: string[] } {
  const args: string[] = []
  const keys: string[] = []
  for (const { reservation: r, token } of candidates) {
    let proof = ''
    if (token) {
      const index = token.stored ? 6 + keys.push(tokenKeyOf(token.tokenId)) : 0
      proof = `${token.issue} ${index}`
    }
    args.push(r.userId, heldRecord(r, token?.tokenId ?? ''), proof)
  }
  return { args, keys }
}

export interface ReadReply {
  readonly epoch: number
  readonly seq: number
  readonly answers: readonly DeductAnswer[]
}

/** A refusal of the batch as a whole, or one answer for each candidate. */
export function readReply(
  reply: ScriptReply,
  candidates: readonly Candidate[],
): ReadReply | Refusal {
  switch (reply[0]) {
    case -1:
      return { status: 'not-warmed' }
    case -4:
      return { status: 'rewound' }
    case -8:
      throw new FlashSaleError('CORRUPT', 'the stock or sale key holds numbers that do not add up')
  }
  const codes = String(reply[3]).split(' ')
  const details = String(reply[4]).split(' ')
  if (codes.length !== candidates.length)
    throw new FlashSaleError(
      'CORRUPT',
      `deduct answered ${codes.length} of ${candidates.length} candidates`,
    )
  let used = 0
  const detail = () => details[used++] ?? ''
  return {
    epoch: Number(reply[1]),
    seq: Number(reply[2]),
    answers: codes.map((code, i) => answer(Number(code), candidates[i] as Candidate, detail)),
  }
}

/** Most of a crowd is told this: one object for all. */
const SOLD_OUT: DeductAnswer = Object.freeze({ status: 'sold-out' })

/** The codes of lua/deduct.lua, in words. */
function answer(code: number, { reservation }: Candidate, detail: () => string): DeductAnswer {
  switch (code) {
    case 1:
    case 3:
      return { status: 'reserved', reservation, replayed: false }
    case 0:
      return SOLD_OUT
    case 2: {
      const record = parseRecord(detail())
      if (!record) return new FlashSaleError('CORRUPT', `the record of a buyer cannot be read`)
      const { orderNo, quantity, reservedAt } = record
      return {
        status: 'reserved',
        reservation: { ...reservation, orderNo, quantity, reservedAt },
        replayed: true,
      }
    }
    case -2:
      return { status: 'version-mismatch' }
    case -3:
      return { status: 'script-mismatch' }
    case -5:
      return { status: 'not-open', opensAt: Number(detail()) }
    case -6:
      return { status: 'ended' }
    case -7:
      return { status: 'stopped' }
    case -10:
      return { status: 'already-bought', orderNo: detail() }
    case -11:
      return { status: 'not-enough', available: Number(detail()) }
    case -12:
      return { status: 'busy', cause: 'watermark', retryAfterMs: 1000 }
    case -13:
      return { status: 'token-missing' }
    case -14:
      return { status: 'token-revoked' }
    case -15:
      return { status: 'over-limit', maxPerOrder: Number(detail()) }
    case -16:
      return { status: 'try-again' }
    default:
      return new FlashSaleError(
        'CORRUPT',
        `the record of buyer ${reservation.userId} cannot be read`,
      )
  }
}

/** The reservations that this batch took, as the message to the queue; null when it took none. */
export function wonBatch(
  ref: SkuRef,
  batchId: string,
  answers: readonly DeductAnswer[],
): Batch | null {
  const reservations: Reservation[] = []
  for (const answer of answers)
    if ('status' in answer && answer.status === 'reserved' && !answer.replayed)
      reservations.push(answer.reservation)
  return reservations.length === 0 ? null : { schema: 1, batchId, ...ref, reservations }
}

export function newBatchId(): string {
  return newOrderNo()
}
