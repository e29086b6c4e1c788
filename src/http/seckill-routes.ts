import * as check from '../core/check.js'
import { quiet } from '../core/quiet.js'
import type { Json } from '../core/types.js'
import type { FlashSale } from '../pipeline/flash-sale.js'
import type { Buyer, SubmitRequest } from '../pipeline/options.js'
import { errorToHttp, type HttpAnswer, requestRefusals, toHttp } from './to-http.js'

/** The three calls a sale is served by; `FlashSale` has them, and so may a wiring of the host's own. */
export type Sale = Pick<FlashSale, 'token' | 'submit' | 'result'>

export interface SeckillRoutesOptions {
  /**
   * Told of what was thrown, for the host's log; the answer to the buyer shows nothing of it. Malformed requests are not
   * reported: anybody can send them, as many as he likes.
   */
  readonly onError?: (error: unknown) => void
}

export interface TokenQuestion {
  readonly activityId: string
  readonly buyer: Buyer
}

export interface SubmitQuestion {
  readonly activityId: string
  readonly skuId: string
  /** From the host's session. Nothing in the body can change it. */
  readonly buyer: Buyer
  /** The header `x-seckill-token` as it came in. */
  readonly token?: unknown
  /** The parsed body, of which `quantity` and `payload` are read; `undefined` when there was none. */
  readonly body?: unknown
  readonly signal?: AbortSignal
}

export interface ResultQuestion {
  readonly activityId: string
  readonly skuId: string
  readonly buyer: Buyer
}

/**
 * The three questions of a buyer, answered in terms of HTTP for any framework. Never rejects. There are no routes for
 * operators here: opening, stopping and topping up belong behind the host's own authorisation.
 */
export class SeckillRoutes {
  private readonly onError: (error: unknown) => void

  constructor(
    private readonly sale: Sale,
    o: SeckillRoutesOptions = {},
  ) {
    for (const name of ['token', 'submit', 'result'] as const)
      if (typeof sale?.[name] !== 'function')
        check.fail('BAD_OPTION', `sale.${name}`, 'a function', sale?.[name])
    this.onError = quiet('onError', o.onError)
  }

  async token(q: TokenQuestion): Promise<HttpAnswer> {
    try {
      check.keyId(q.activityId, 'activityId')
    } catch {
      return requestRefusals.badRequest
    }
    try {
      return toHttp(await this.sale.token(q.activityId, q.buyer))
    } catch (error) {
      return this.failed(error)
    }
  }

  async submit(q: SubmitQuestion): Promise<HttpAnswer> {
    const request = readRequest(q)
    if (!request) return requestRefusals.badRequest
    try {
      return toHttp(await this.sale.submit(request))
    } catch (error) {
      // The payload is serialised, and measured, by the sale; doing so twice cost 1 of the pipeline's 20 µs.
      return isPayload(request.payload) ? this.failed(error) : requestRefusals.badRequest
    }
  }

  async result(q: ResultQuestion): Promise<HttpAnswer> {
    try {
      check.skuRef(q)
    } catch {
      return requestRefusals.badRequest
    }
    try {
      const { activityId, skuId, buyer } = q
      return toHttp(await this.sale.result({ activityId, skuId, userId: buyer.userId }))
    } catch (error) {
      return this.failed(error)
    }
  }

  /** For what was thrown although the request was well formed: the host's to hear of. */
  failed(error: unknown): HttpAnswer {
    this.onError(error)
    return errorToHttp(error)
  }
}

/** What the buyer asks for, or null when it is not well formed. Other fields of the body are not looked at. */
function readRequest(q: SubmitQuestion): SubmitRequest | null {
  const { activityId, skuId, buyer, body, signal } = q
  const request: { -readonly [K in keyof SubmitRequest]: SubmitRequest[K] } = {
    activityId,
    skuId,
    buyer,
    token: headerText(q.token),
  }
  if (signal) request.signal = signal
  try {
    check.skuRef(q)
    if (body === undefined) return request
    check.object(body, 'body')
    const { quantity, payload } = body as { readonly quantity?: unknown; readonly payload?: Json }
    if (quantity !== undefined) request.quantity = check.int(quantity, 'quantity', 1, 1_000)
    if (payload !== undefined) request.payload = payload
    return request
  } catch {
    return null
  }
}

function isPayload(value: unknown): boolean {
  try {
    check.payloadText(value)
    return true
  } catch {
    return false
  }
}

/** A header sent twice is joined as Node does it, and is then no token that verifies. */
function headerText(value: unknown): string | undefined {
  if (value === undefined || typeof value === 'string') return value
  return Array.isArray(value) ? value.join(', ') : String(value)
}
