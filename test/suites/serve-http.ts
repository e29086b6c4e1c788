import { createServer, request as httpRequest, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach } from 'vitest'
import * as check from '../../src/core/check.js'
import { type NodeHandlerOptions, nodeHandler, type Sale } from '../../src/http/index.js'
import type { SubmitRequest } from '../../src/pipeline/options.js'

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

export const PATH = '/api/seckill/a1/s1/submit'
const JSON_TYPE = { 'content-type': 'application/json' }

export interface Served {
  readonly asked: SubmitRequest[]
  readonly errors: unknown[]
  readonly port: number
  send(o?: {
    method?: string
    path?: string
    headers?: Record<string, string | string[]>
    body?: string | Buffer
  }): Promise<{ status: number; headers: IncomingMessage['headers']; body: unknown; raw: string }>
}

/** A handler over a sale that notes what it is asked; the session is a header, as only a test may do it. */
export async function serve(
  o: Partial<NodeHandlerOptions> & { sale?: Partial<Sale>; keepAlive?: boolean } = {},
): Promise<Served> {
  const asked: SubmitRequest[] = []
  const errors: unknown[] = []
  const { sale: part, ...options } = o
  const sale: Sale = {
    token: async () => ({ status: 'issued', token: 'tok' }),
    submit: async (q) => {
      check.payloadText(q.payload) // as the pipeline does before anything else
      asked.push(q)
      return { status: 'queued', orderNo: 'n1', replayed: false }
    },
    result: async ({ orderNo }) => ({ status: 'confirmed', orderNo: orderNo ?? 'n1' }),
    ...part,
  }
  const handler = nodeHandler(sale, {
    buyer: (req) => {
      const user = req.headers['x-test-user']
      return typeof user === 'string' ? { userId: user, ip: '127.0.0.1' } : null
    },
    onError: (error) => errors.push(error),
    ...options,
  })
  const server = createServer(handler)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  const send: Served['send'] = ({ method = 'POST', path = PATH, headers = {}, body } = {}) =>
    new Promise((resolve, reject) => {
      const all = { 'x-test-user': 'ann', ...(body === undefined ? {} : JSON_TYPE), ...headers }
      const req = httpRequest(
        { port, host: '127.0.0.1', method, path, headers: all },
        async (res) => {
          const raw = await text(res)
          const parsed = raw === '' ? undefined : JSON.parse(raw)
          resolve({ status: res.statusCode ?? 0, headers: res.headers, body: parsed, raw })
        },
      )
      req.on('error', reject)
      req.end(body)
    })
  return { asked, errors, port, send }
}
