/** Anything JSON can carry; what a buyer's `payload` may be. */
export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [key: string]: Json }

/** One thing on sale: an SKU within an activity. */
export interface SkuRef {
  readonly activityId: string
  readonly skuId: string
}

/** What a flash sale is, as the host describes it. Instants are epoch milliseconds, amounts integers in minor units. */
export interface Activity {
  readonly activityId: string
  /** Changes whenever the terms change; a deduction names the version it was made for. */
  readonly version: string
  /** First millisecond in which units leave (inclusive). */
  readonly opensAt: number
  /** First millisecond in which they no longer do (exclusive). */
  readonly endsAt: number
  /** How long a confirmed order may stay unpaid. */
  readonly payWithinMs: number
  /** `queued`: Redis admits, a queue carries, the database confirms. `strong`: the answer waits for the database's commit. */
  readonly mode: 'queued' | 'strong'
  /** `required`: no token, no deduction. */
  readonly tokens: 'required' | 'off'
  /** Units one buyer may take of an SKU, 1 to 1,000. */
  readonly maxPerOrder: number
  readonly skus: readonly ActivitySku[]
  /**
   * Orders that may wait for the database before admission pauses with `busy`; it resumes at half of it.
   * @defaultValue 5,000 (the source's watermark)
   */
  readonly watermark?: number
}

export interface ActivitySku {
  readonly skuId: string
  /** Sellable units S, 1 to 1,000,000,000. */
  readonly units: number
  /** Price of one unit in minor units of `currency`. */
  readonly priceMinor: number
  /** ISO 4217 code, three capital letters. */
  readonly currency: string
}

export type SaleState = 'open' | 'stopped'

/** Who did it and why; goes into the audit row of the act. */
export interface Audit {
  readonly actor: string
  readonly reason: string
  readonly approvedBy?: string
}

/** Units taken in Redis for a buyer, not yet decided by the database. */
export interface Reservation extends SkuRef {
  readonly orderNo: string
  readonly userId: string
  readonly quantity: number
  /** The bucket the units came from and return to. */
  readonly bucket: number
  readonly version: string
  /** The client's clock, epoch ms. Decides nothing about stock; ages in reports are reckoned from it. */
  readonly reservedAt: number
  readonly payload?: Json
}

/** Where a reservation stands in Redis. */
export type ReservationState = 'held' | 'confirmed' | 'paid' | 'released'

/** Reservations of one SKU that left Redis in one script and travel as one message. */
export interface Batch extends SkuRef {
  readonly schema: 1
  readonly batchId: string
  readonly reservations: readonly Reservation[]
  /** Made at send, checked by the consumer. */
  readonly mac?: string
}

/** What a {@link Queue} knows after a send. `unknown` is everything that is not a definite yes or no. */
export type Sent = 'accepted' | 'rejected' | 'unknown'

/**
 * What became of a batch.
 * - `accepted`: the queue has it. `unknown`: it may have it; the batch stays owed and the relay sends it again.
 * - `closed`: the send was refused, and every number of the batch now has a row: those listed are CLOSED and go back, the
 *   others are live.
 * - `settled`: every number is decided and Redis has been told.
 */
export type Delivered = 'accepted' | 'unknown' | 'settled' | { readonly closed: readonly string[] }

/** `total = available + frozen + sold`, `total - over` = S, `pending` of `frozen` wait for the database. Units. */
export interface Numbers {
  readonly total: number
  readonly available: number
  readonly frozen: number
  readonly sold: number
  readonly pending: number
  /** Units of live orders that Redis had forgotten and found sold again; 0 but after a loss. */
  readonly over: number
}

/**
 * The database's view of one SKU: its stock row, and the units its orders hold: `live` counts CONFIRMED and PAID ones, and
 * those closed as `refunded`, whose units stay sold until the host puts them on sale again by a top-up.
 */
export interface DbNumbers extends SkuRef {
  readonly total: number
  readonly available: number
  readonly live: number
}

/** {@link Numbers} with what the sale key says at the same moment. */
export interface SaleNumbers extends Numbers {
  readonly state: SaleState
  readonly version: string
  /** Orders of the whole activity not yet decided by the database. */
  readonly waiting: number
  /** Batches of the whole activity that are owed to the queue, or watched until somebody settles them. */
  readonly owed: number
}

/**
 * - `rebuilt`: all keys of the activity were replaced in one step, under a new epoch, and the sale is stopped.
 * - `overtaken`: another rebuild or a warm-up came first, or the sale was opened; nothing was changed.
 * - `lost`: what was being written got lost on the way; nothing was changed, try again.
 * - `expired`: the keys of this activity would have expired by now; nothing was changed.
 */
export type RebuiltStock =
  | { readonly status: 'rebuilt'; readonly epoch: number; readonly orders: number }
  | { readonly status: 'overtaken' | 'lost' | 'expired' }

/** A reservation as Redis remembers it; `version` is the sale's, and the payload is not kept. */
export interface ReservationRecord extends Reservation {
  readonly state: ReservationState
}

/** One transition of a reservation; each takes effect once per order number. */
export type Move =
  | { readonly to: 'confirmed' | 'paid'; readonly reservation: Reservation }
  | { readonly to: 'released'; readonly reservation: Reservation; readonly reason: string }

/**
 * `done`: moved now. `already`: it stood there, or further on. `adopted`: Redis had forgotten the number and booked it
 * again. `unknown`: nothing to release. `refused`: the number is paid (release) or was released (confirm, paid).
 */
export type Moved = 'done' | 'already' | 'adopted' | 'unknown' | 'refused'

/** Proof that a token was verified; only a TokenIssuer makes one. */
export interface TokenProof {
  /** What the deduction remembers of the token: at most 64 characters, never the token itself. */
  readonly tokenId: string
  /** The token epoch it was issued under; a raised epoch revokes it. */
  readonly issue: number
  /** Set for stored tokens: the deduct script then checks that it still exists. */
  readonly stored?: true
}

export interface TokenClaims {
  readonly activityId: string
  readonly userId: string
  readonly deviceId?: string
}

export type TokenRefusal = {
  readonly status:
    | 'token-missing'
    | 'token-invalid'
    | 'token-expired'
    | 'token-not-yours'
    | 'token-revoked'
}

export type Busy = {
  readonly status: 'busy'
  readonly cause: 'watermark' | 'waiting-room' | 'probe'
  readonly retryAfterMs: number
}

/** A limit refused the call; `retryAfterMs` until a token is there, if nobody else takes it. */
export type RateLimited = {
  readonly status: 'rate-limited'
  readonly by: 'user' | 'ip' | 'total' | 'sku'
  readonly retryAfterMs: number
}

/** What a buyer can be told instead of an order number. */
export type Refusal =
  | { readonly status: 'not-found' }
  | { readonly status: 'not-open'; readonly opensAt: number }
  | { readonly status: 'ended' | 'stopped' }
  | { readonly status: 'denied'; readonly reason: string }
  | RateLimited
  | TokenRefusal
  | { readonly status: 'already-bought'; readonly orderNo: string }
  | { readonly status: 'over-limit'; readonly maxPerOrder: number }
  | { readonly status: 'sold-out' }
  | { readonly status: 'not-enough'; readonly available: number }
  | Busy
  | { readonly status: 'not-warmed' | 'version-mismatch' | 'script-mismatch' | 'rewound' }
  | { readonly status: 'try-again' }

export type Deducted = {
  readonly status: 'reserved'
  readonly reservation: Reservation
  /** The same request had been answered before; no further unit left. */
  readonly replayed: boolean
}

/** The outcome is not known: the unit may be held. Ask again with the same token, or for the result. */
export type Unknown = { readonly status: 'unknown'; readonly orderNo: string }

export type Submitted =
  | {
      readonly status: 'queued' | 'confirmed'
      readonly orderNo: string
      readonly replayed: boolean
    }
  | Unknown
  | Refusal

export type OrderResult =
  | { readonly status: 'queued' | 'confirmed' | 'paid'; readonly orderNo: string }
  | { readonly status: 'closed'; readonly orderNo: string; readonly reason: string }
  | { readonly status: 'none' }
