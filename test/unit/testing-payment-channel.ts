import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type {
  ChannelCall,
  PaymentNotice,
  PaymentProvider,
  PaymentRequest,
  RefundRequest,
} from 'flash-sale-kit'
import {
  type ChannelFault,
  type ChannelMethod,
  type PaymentProviderUnderTest,
  type RawCallback,
  SandboxPayments,
} from 'flash-sale-kit/testing'

const KEY = 'what the channel signs its callbacks with'
const sign = (text: string) => createHmac('sha256', KEY).update(text).digest('base64url')

/** A channel as they are: an HTTP server, here with a sandbox behind it, that can be told to fail. */
export async function openHttpChannel() {
  const sandbox = new SandboxPayments({ channel: 'http', currencies: ['CNY', 'JPY'] })
  const faults: { readonly method: ChannelMethod; readonly fault: ChannelFault }[] = []

  const answer = async (req: IncomingMessage, res: ServerResponse) => {
    const method = req.url?.slice(1) as ChannelMethod
    const at = faults.findIndex((f) => f.method === method)
    const fault = at < 0 ? null : faults.splice(at, 1)[0]?.fault
    if (fault === 'unreached') return void req.socket.destroy()
    let text = ''
    for await (const chunk of req) text += chunk
    if (fault === 'server-error') return void res.writeHead(503).end('{"status":"closed"}')
    const call = sandbox[method] as (arg: unknown, o: ChannelCall) => Promise<unknown>
    const said = await call.call(sandbox, JSON.parse(text), {
      signal: new AbortController().signal,
    })
    if (fault === 'lost-answer') return void req.socket.destroy()
    if (fault !== 'silent') res.end(JSON.stringify(said))
  }
  const server = createServer((req, res) => void answer(req, res))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sandbox,
    fail: (method: ChannelMethod, fault: ChannelFault) => void faults.push({ method, fault }),
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** An adapter as a host writes it. Everything but an answer of the channel is a throw. */
export class HttpPayments implements PaymentProvider {
  readonly channel = 'http'

  constructor(private readonly url: string) {}

  create(request: PaymentRequest, o: ChannelCall) {
    return this.call<Awaited<ReturnType<PaymentProvider['create']>>>('create', request, o)
  }

  query(paymentId: string, o: ChannelCall) {
    return this.call<Awaited<ReturnType<PaymentProvider['query']>>>('query', paymentId, o)
  }

  close(paymentId: string, o: ChannelCall) {
    return this.call<Awaited<ReturnType<PaymentProvider['close']>>>('close', paymentId, o)
  }

  refund(request: RefundRequest, o: ChannelCall) {
    return this.call<Awaited<ReturnType<PaymentProvider['refund']>>>('refund', request, o)
  }

  queryRefund(request: RefundRequest, o: ChannelCall) {
    return this.call<Awaited<ReturnType<PaymentProvider['queryRefund']>>>('queryRefund', request, o)
  }

  protected async call<T>(
    method: ChannelMethod,
    body: unknown,
    { signal }: ChannelCall,
  ): Promise<T> {
    const res = await fetch(`${this.url}/${method}`, {
      method: 'POST',
      body: JSON.stringify(body),
      signal,
    })
    if (!res.ok) throw new Error(`the channel answered ${res.status}`)
    return (await res.json()) as T
  }
}

/** The host's reading of a callback, as in the Express example. */
export function readCallback({ headers, body }: RawCallback): PaymentNotice {
  const right = Buffer.from(sign(body))
  const given = Buffer.from(headers['x-channel-signature'] ?? '')
  const verified = given.length === right.length && timingSafeEqual(given, right)
  return { ...JSON.parse(body), channel: 'http', verified }
}

export interface Changed {
  readonly provider?: (url: string) => PaymentProvider
  readonly read?: (callback: RawCallback) => PaymentNotice
}

/** The adapter under test, and what a test may put in its place. */
export async function httpChannelUnderTest(o: Changed = {}): Promise<PaymentProviderUnderTest> {
  const { url, sandbox, fail, close } = await openHttpChannel()
  const callbacks = new Map<string, PaymentNotice>()
  return {
    provider: o.provider?.(url) ?? new HttpPayments(url),
    currencies: ['CNY', 'JPY'],
    patienceMs: 5_000,
    async pay(_, cashier) {
      // The buyer's page shows the number that the channel gave it.
      const { paymentId } = cashier as { readonly paymentId: string }
      const notice = sandbox.pay(paymentId)
      if (notice) callbacks.set(paymentId, notice)
      return notice !== null
    },
    fail,
    async callbackOf(paymentId) {
      const { channel, verified, ...said } = callbacks.get(paymentId) as PaymentNotice
      const body = JSON.stringify(said)
      return { body, headers: { 'x-channel-signature': sign(body) } }
    },
    unsigned: ({ body }) => ({ body, headers: {} }),
    read: o.read ?? readCallback,
    close,
  }
}
