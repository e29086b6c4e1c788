import { type ErrorCode, FlashSaleError } from '../core/errors.js'
import type { Deducted, OrderResult, Refusal, Submitted } from '../core/types.js'

/** An answer that any framework can send: `body` is JSON, its `code` is what clients act on. */
export interface HttpAnswer {
  readonly http: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: HttpBody
}

export interface HttpBody {
  readonly code: `SECKILL_${string}`
  readonly [detail: string]: string | number | boolean
}

/** What a token route answers. */
export type TokenOutcome = { readonly status: 'issued'; readonly token: string } | Refusal

type Tabled = Submitted | OrderResult | TokenOutcome
type KeysOf<T> = T extends unknown ? keyof T : never
type Detail = Exclude<KeysOf<Tabled>, 'status'>
type Row = readonly [http: number, code: HttpBody['code'], ...details: Detail[]]

/** Every status a buyer can be told, with what goes into the body besides the code. A missing one fails to compile. */
const TABLE = {
  issued: [200, 'SECKILL_TOKEN', 'token'],
  queued: [202, 'SECKILL_QUEUED', 'orderNo', 'replayed'],
  unknown: [202, 'SECKILL_UNKNOWN', 'orderNo'],
  confirmed: [200, 'SECKILL_CONFIRMED', 'orderNo', 'replayed'],
  paid: [200, 'SECKILL_PAID', 'orderNo'],
  closed: [200, 'SECKILL_CLOSED', 'orderNo', 'reason'],
  none: [404, 'SECKILL_NO_ORDER'],
  'not-found': [404, 'SECKILL_NOT_FOUND'],
  'not-open': [403, 'SECKILL_NOT_OPEN', 'opensAt'],
  ended: [403, 'SECKILL_ENDED'],
  stopped: [403, 'SECKILL_STOPPED'],
  denied: [403, 'SECKILL_DENIED', 'reason'],
  'rate-limited': [429, 'SECKILL_RATE_LIMIT', 'by', 'retryAfterMs'],
  'token-missing': [403, 'SECKILL_TOKEN_MISSING'],
  'token-invalid': [403, 'SECKILL_TOKEN_INVALID'],
  'token-expired': [403, 'SECKILL_TOKEN_EXPIRED'],
  'token-not-yours': [403, 'SECKILL_TOKEN_NOT_YOURS'],
  'token-revoked': [403, 'SECKILL_TOKEN_REVOKED'],
  'already-bought': [409, 'SECKILL_ALREADY_BOUGHT', 'orderNo'],
  'over-limit': [409, 'SECKILL_OVER_LIMIT', 'maxPerOrder'],
  'sold-out': [409, 'SECKILL_SOLD_OUT'],
  'not-enough': [409, 'SECKILL_NOT_ENOUGH', 'available'],
  busy: [503, 'SECKILL_BUSY', 'cause', 'retryAfterMs'],
  'try-again': [503, 'SECKILL_TRY_AGAIN'],
  'not-warmed': [503, 'SECKILL_NOT_WARMED'],
  'version-mismatch': [503, 'SECKILL_VERSION'],
  'script-mismatch': [503, 'SECKILL_SCRIPT'],
  rewound: [503, 'SECKILL_REWOUND'],
} as const satisfies Record<Tabled['status'], Row>

const NO_STORE = Object.freeze({ 'Cache-Control': 'no-store' })

const INTERNAL = constant(500, 'SECKILL_INTERNAL')
const UNAVAILABLE = constant(503, 'SECKILL_UNAVAILABLE', 1_000)
const BAD_REQUEST = constant(400, 'SECKILL_BAD_REQUEST')

/** Every error code; what a person has to repair is `SECKILL_INTERNAL`, what passes by itself `SECKILL_UNAVAILABLE`. */
const ERRORS = {
  BAD_INPUT: BAD_REQUEST,
  BAD_OPTION: INTERNAL,
  BAD_MESSAGE: INTERNAL,
  CORRUPT: INTERNAL,
  REDIS_REFUSED: UNAVAILABLE,
  REDIS_UNAVAILABLE: UNAVAILABLE,
  DB_BUSY: UNAVAILABLE,
  DB_UNAVAILABLE: UNAVAILABLE,
  QUEUE_UNAVAILABLE: UNAVAILABLE,
  STOPPED: UNAVAILABLE,
  // Thrown where no order number is known. All such calls may be repeated, so "try later" is the true answer.
  OUTCOME_UNKNOWN: UNAVAILABLE,
  NOT_WARMED: constant(503, 'SECKILL_NOT_WARMED'),
} as const satisfies Record<ErrorCode, HttpAnswer>

/** Refusals of a request as such, before any sale is asked. */
export const requestRefusals = {
  badRequest: BAD_REQUEST,
  notSignedIn: constant(401, 'SECKILL_NOT_SIGNED_IN'),
  notFound: constant(404, 'SECKILL_NOT_FOUND'),
  useGet: constant(405, 'SECKILL_METHOD_NOT_ALLOWED', undefined, { Allow: 'GET' }),
  usePost: constant(405, 'SECKILL_METHOD_NOT_ALLOWED', undefined, { Allow: 'POST' }),
  // The rest of the body is not read, so the connection cannot be used again.
  tooLarge: constant(413, 'SECKILL_TOO_LARGE', undefined, { Connection: 'close' }),
  notJson: constant(415, 'SECKILL_NOT_JSON'),
} as const

/** Units back a moment ago may be had at once; the second keeps a refused crowd from returning in one wave. */
const TRY_AGAIN_MS = 1_000

/** One shared, frozen answer for each status without details, the row of the table for the others. */
const ANSWERS = new Map<string, HttpAnswer | Row>()
for (const [status, row] of Object.entries(TABLE) as [string, Row][]) {
  const [http, code, ...details] = row
  const retryAfterMs = status === 'try-again' ? TRY_AGAIN_MS : undefined
  ANSWERS.set(status, details.length > 0 ? row : constant(http, code, retryAfterMs))
}

/**
 * The HTTP answer to an outcome: 2xx for orders (202 while it is not decided), 403 for what may not be, 404 for what is
 * not there, 409 for what the stock or an earlier order forbids, 429 and 503 with `Retry-After` for what may be tried later.
 */
export function toHttp(outcome: Tabled | Deducted): HttpAnswer {
  if (outcome.status === 'reserved') {
    const { reservation, replayed } = outcome
    return toHttp({ status: 'queued', orderNo: reservation.orderNo, replayed })
  }
  // None: a status of a newer version, or one that JavaScript made up.
  const found = ANSWERS.get(outcome.status) ?? INTERNAL
  if ('http' in found) return found
  const [http, code, ...details] = found
  const body: { code: HttpBody['code']; [detail: string]: string | number | boolean } = { code }
  for (const name of details) {
    const value = (outcome as Partial<Record<Detail, string | number | boolean>>)[name]
    if (value !== undefined) body[name] = value
  }
  const retryAfterMs = 'retryAfterMs' in outcome ? outcome.retryAfterMs : undefined
  return { http, headers: headersWith(retryAfterMs), body }
}

/**
 * The HTTP answer to something thrown. It never shows a message, which may name hosts, keys or values: log the error
 * itself. Errors of body parsers (`status` 413, 415 or another 4xx, as body-parser and koa-bodyparser throw them) are
 * understood.
 */
export function errorToHttp(error: unknown): HttpAnswer {
  if (error instanceof FlashSaleError) return ERRORS[error.code] ?? INTERNAL
  const status =
    error instanceof Error ? (error as { readonly status?: unknown }).status : undefined
  if (status === 413) return requestRefusals.tooLarge
  if (status === 415) return requestRefusals.notJson
  return typeof status === 'number' && status >= 400 && status < 500 ? BAD_REQUEST : INTERNAL
}

function constant(
  http: number,
  code: HttpBody['code'],
  retryAfterMs?: number,
  more?: Readonly<Record<string, string>>,
): HttpAnswer {
  const headers = Object.freeze({ ...headersWith(retryAfterMs), ...more })
  return Object.freeze({ http, headers, body: Object.freeze({ code }) })
}

/** `Retry-After` has whole seconds, rounded up: rounded down, the client would come too early. */
function headersWith(retryAfterMs: number | undefined): Readonly<Record<string, string>> {
  if (retryAfterMs === undefined) return NO_STORE
  return { ...NO_STORE, 'Retry-After': String(Math.max(1, Math.ceil(retryAfterMs / 1_000))) }
}
