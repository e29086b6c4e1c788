import * as check from '../core/check.js'
import type { Buyer } from '../pipeline/options.js'
import type { BodyRead } from './read-json.js'
import { type Sale, SeckillRoutes, type SeckillRoutesOptions } from './seckill-routes.js'
import { type HttpAnswer, requestRefusals } from './to-http.js'

/** Options of every adapter; `Request` is what the framework calls a request. */
export interface SeckillHttpOptions<Request> extends SeckillRoutesOptions {
  /**
   * Who asks, from the host's session and connection; null for somebody who is not signed in (401). The `ip` is the host's
   * business too: only it knows which proxies in front of it may be believed.
   */
  readonly buyer: (request: Request) => Buyer | null | Promise<Buyer | null>
  /** Bytes of a body. @defaultValue 4,096: room for a payload of 1,024 bytes, escaped. */
  readonly maxBodyBytes?: number
}

/** A request, as far as all frameworks have it. */
export interface Incoming<Request> {
  readonly request: Request
  readonly method: string | undefined
  /** Path and query. */
  readonly url: string | undefined
  readonly token: unknown
  body(maxBytes: number): BodyRead | Promise<BodyRead>
}

interface Route {
  readonly name: 'token' | 'submit' | 'result'
  readonly activityId: string
  readonly skuId: string
}

/**
 * Routes requests under `prefix`; null for a path that is not ours.
 *
 * - `POST {prefix}/:activityId/token`
 * - `POST {prefix}/:activityId/:skuId/submit`
 * - `GET {prefix}/:activityId/:skuId/result`: of the buyer who asks. Not by order number: a made-up one that nobody knows gets
 *   a CLOSED row in time (`FlashSale.result`), and strangers must not fill the database with those.
 */
export function seckillServer<Request>(
  sale: Sale,
  prefix: string,
  o: SeckillHttpOptions<Request>,
): (incoming: Incoming<Request>) => Promise<HttpAnswer> | null {
  check.object(o, 'options')
  if (typeof o.buyer !== 'function') check.fail('BAD_OPTION', 'option buyer', 'a function', o.buyer)
  if (typeof prefix !== 'string' || !/^(\/[\w.~-]+)*$/.test(prefix))
    check.fail('BAD_OPTION', 'option prefix', "a path such as '/api/seckill', or ''", prefix)
  const maxBytes = check.option(o.maxBodyBytes, 'maxBodyBytes', 4_096, 2, 1_048_576)
  const routes = new SeckillRoutes(sale, o)

  const answer = async (route: Route, incoming: Incoming<Request>): Promise<HttpAnswer> => {
    const { activityId, skuId } = route
    try {
      const asked = o.buyer(incoming.request)
      const buyer = asked instanceof Promise ? await asked : asked
      if (!buyer) return requestRefusals.notSignedIn
      if (route.name === 'result') return await routes.result({ activityId, skuId, buyer })
      const reading = incoming.body(maxBytes)
      const read = reading instanceof Promise ? await reading : reading
      if (read.status === 'refused') return read.answer
      if (route.name === 'token') return await routes.token({ activityId, buyer })
      const { token } = incoming
      return await routes.submit({ activityId, skuId, buyer, token, body: read.body })
    } catch (error) {
      return routes.failed(error) // the host's `buyer` threw
    }
  }

  return (incoming) => {
    const route = match(prefix, incoming.url ?? '')
    if (route === 'elsewhere') return null
    if (route === 'malformed') return Promise.resolve(requestRefusals.badRequest)
    const method = route.name === 'result' ? 'GET' : 'POST'
    if (incoming.method === method) return answer(route, incoming)
    return Promise.resolve(method === 'GET' ? requestRefusals.useGet : requestRefusals.usePost)
  }
}

function match(prefix: string, url: string): Route | 'elsewhere' | 'malformed' {
  if (!url.startsWith(prefix) || url.charCodeAt(prefix.length) !== 0x2f) return 'elsewhere'
  const mark = url.indexOf('?')
  const path = mark < 0 ? url.slice(prefix.length + 1) : url.slice(prefix.length + 1, mark)
  const parts = path.split('/')
  const name = parts.at(-1)
  const known =
    (parts.length === 2 && name === 'token') ||
    (parts.length === 3 && (name === 'submit' || name === 'result'))
  if (!known) return 'elsewhere'
  const activityId = decoded(parts[0] as string)
  const skuId = name === 'token' ? '' : decoded(parts[1] as string)
  if (activityId === null || skuId === null) return 'malformed'
  return { name: name as Route['name'], activityId, skuId }
}

function decoded(part: string): string | null {
  if (!part.includes('%')) return part
  try {
    return decodeURIComponent(part)
  } catch {
    return null
  }
}
