import * as check from '../core/check.js'
import { newOrderNo } from '../core/order-no.js'
import type { Json, Reservation, SkuRef, TokenProof } from '../core/types.js'
import type { Candidate } from './deduct-batch.js'

export interface DeductRequest extends SkuRef {
  /** From the host's session. A 64-bit id may be a BigInt. */
  readonly userId: string | bigint
  /** @defaultValue 1 */
  readonly quantity?: number
  readonly version: string
  /** An order number of the host's own; without it the library makes one. */
  readonly orderNo?: string
  readonly token?: TokenProof
  /** At most 1,024 bytes of JSON; travels to the host's `onConfirm`. */
  readonly payload?: Json
  /** Aborts the wait, never a call already sent. */
  readonly signal?: AbortSignal
}

/** Checks every field of a request, and copies it: what the caller changes later does not matter. */
export function candidate(request: DeductRequest): Candidate {
  check.object(request, 'request')
  if (request.signal !== undefined && !(request.signal instanceof AbortSignal))
    check.fail('BAD_INPUT', 'signal', 'an AbortSignal', request.signal)
  const { activityId, skuId } = check.skuRef(request)
  const payload = check.payloadText(request.payload)
  const bare: Reservation = {
    orderNo: request.orderNo === undefined ? newOrderNo() : check.id(request.orderNo, 'orderNo'),
    activityId,
    skuId,
    userId: check.userIdOf(request.userId),
    quantity:
      request.quantity === undefined ? 1 : check.int(request.quantity, 'quantity', 1, 1_000),
    bucket: 0,
    version: check.id(request.version, 'version'),
    reservedAt: Date.now(),
  }
  return {
    // The payload of this moment: its object stays the caller's, who may change it before the batch leaves.
    reservation: payload === undefined ? bare : { ...bare, payload: JSON.parse(payload) as Json },
    payload,
    token: tokenProof(request.token),
    ownNumber: request.orderNo !== undefined,
  }
}

function tokenProof(token: TokenProof | undefined): TokenProof | undefined {
  if (token === undefined) return undefined
  check.object(token, 'token')
  const tokenId = check.keyId(token.tokenId, 'token.tokenId')
  const issue = check.int(token.issue, 'token.issue', 0, 1e12)
  if (token.stored === undefined) return { tokenId, issue }
  if (token.stored !== true) check.fail('BAD_INPUT', 'token.stored', 'true or absent', token.stored)
  return { tokenId, issue, stored: true }
}
