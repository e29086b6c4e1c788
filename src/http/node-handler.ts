import type { IncomingMessage, ServerResponse } from 'node:http'
import { readJson } from './read-json.js'
import type { Sale } from './seckill-routes.js'
import { type SeckillHttpOptions, seckillServer } from './serve.js'
import { type HttpAnswer, requestRefusals } from './to-http.js'

export interface NodeHandlerOptions extends SeckillHttpOptions<IncomingMessage> {
  /** What the paths begin with. @defaultValue `/api/seckill` */
  readonly prefix?: string
}

/**
 * A listener for `http.createServer`, for hosts without a framework or with the sale in processes of its own. It reads
 * the body itself; other paths are answered 404. It does not listen to the client going away (that cost 5 of some 50 µs a
 * request): nobody waits longer than 200 ms for his turn, and what was sent to Redis takes its course anyhow.
 *
 * @throws FlashSaleError `BAD_OPTION`
 */
export function nodeHandler(
  sale: Sale,
  o: NodeHandlerOptions,
): (req: IncomingMessage, res: ServerResponse) => void {
  const serve = seckillServer(sale, o?.prefix ?? '/api/seckill', o)
  return (req, res) => {
    const answer = serve(incoming(req))
    if (answer === null) send(res, requestRefusals.notFound)
    else answer.then((a) => send(res, a))
  }
}

/** @param parsed the body, where a parser before us has read it */
export function incoming<Request extends IncomingMessage>(req: Request, parsed?: unknown) {
  return {
    request: req,
    method: req.method,
    url: req.url,
    token: req.headers['x-seckill-token'],
    body: (maxBytes: number) => readJson(req, maxBytes, parsed),
  }
}

interface Wire {
  readonly head: readonly string[]
  readonly text: string
}

/** Most answers of a sale are the same few refusals: those are written out once. */
const wires = new WeakMap<HttpAnswer, Wire>()

/** Writes an answer, unless somebody else (a timeout of the host's) has answered already. */
export function send(res: ServerResponse, answer: HttpAnswer): void {
  if (res.headersSent) return
  let wire = wires.get(answer)
  if (!wire) {
    wire = write(answer)
    if (Object.isFrozen(answer)) wires.set(answer, wire)
  }
  // The types want a mutable array; Node does not change it.
  res.writeHead(answer.http, wire.head as string[])
  res.end(wire.text)
}

function write({ headers, body }: HttpAnswer): Wire {
  const text = JSON.stringify(body)
  const length = String(Buffer.byteLength(text))
  const head = ['Content-Type', 'application/json', 'Content-Length', length]
  for (const [name, value] of Object.entries(headers)) head.push(name, value)
  return { head, text }
}
