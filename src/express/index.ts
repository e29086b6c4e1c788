import type { IncomingMessage, ServerResponse } from 'node:http'
import { incoming, send } from '../http/node-handler.js'
import type { Sale } from '../http/seckill-routes.js'
import { type SeckillHttpOptions, seckillServer } from '../http/serve.js'
import { errorToHttp } from '../http/to-http.js'

type Next = (error?: unknown) => void

/**
 * Middleware for Express 4 and 5, to be mounted where the sale's routes belong:
 *
 * ```ts
 * app.use('/api/seckill', seckillExpress(sale, { buyer: (req: express.Request) => sessionOf(req) }))
 * ```
 *
 * It works behind `express.json()`, which then limits the body, and without any parser. Other paths go to `next`.
 *
 * @throws FlashSaleError `BAD_OPTION`
 */
export function seckillExpress<Request extends IncomingMessage = IncomingMessage>(
  sale: Sale,
  o: SeckillHttpOptions<Request>,
): (req: Request, res: ServerResponse, next: Next) => void {
  const serve = seckillServer(sale, '', o) // Express takes the mount path off the URL
  return (req, res, next) => {
    const answer = serve(incoming(req, (req as { readonly body?: unknown }).body))
    if (answer === null) next()
    else answer.then((a) => send(res, a)).catch(next)
  }
}

/**
 * Error middleware that puts what a body parser in front refused (malformed, too large) into the words of the other
 * answers; mount it on the same path. Anything else is passed on to the host's own.
 */
export function seckillErrors(
  error: unknown,
  _req: IncomingMessage,
  res: ServerResponse,
  next: Next,
): void {
  const answer = errorToHttp(error)
  if (answer.http >= 500) next(error)
  else send(res, answer)
}
