import type { IncomingMessage } from 'node:http'
import { incoming } from '../http/node-handler.js'
import type { Sale } from '../http/seckill-routes.js'
import { type SeckillHttpOptions, seckillServer } from '../http/serve.js'

/** What is used of Koa's context. */
export interface KoaContext {
  readonly req: IncomingMessage
  /** `body` is there when a body parser has run. */
  readonly request: { readonly url: string; readonly body?: unknown }
  status: number
  body: unknown
  set(headers: { [name: string]: string }): void
}

export interface SeckillKoaOptions<Context> extends SeckillHttpOptions<Context> {
  /** What the paths begin with. @defaultValue `/api/seckill` */
  readonly prefix?: string
}

/**
 * Middleware for Koa 2 and 3. It reads the body itself, and takes what a parser before it has read. Other paths go to
 * `next`.
 *
 * @throws FlashSaleError `BAD_OPTION`
 */
export function seckillKoa<Context extends KoaContext = KoaContext>(
  sale: Sale,
  o: SeckillKoaOptions<Context>,
): (ctx: Context, next: () => Promise<unknown>) => Promise<void> {
  const serve = seckillServer<Context>(sale, o?.prefix ?? '/api/seckill', o)
  return async (ctx, next) => {
    const request = incoming(ctx.req, ctx.request.body)
    // ctx.request.url, because mounting middleware rewrites that one and not the request's own.
    const answer = serve({ ...request, request: ctx, url: ctx.request.url })
    if (answer === null) {
      await next()
      return
    }
    const { http, headers, body } = await answer
    ctx.status = http
    ctx.set({ ...headers })
    ctx.body = body
  }
}
