import { createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ChannelCall, PaymentNotice, PaymentProvider } from 'flash-sale-kit'
import { SandboxPayments } from '../../src/testing/sandbox-payments.js'
import { LOOPBACK } from '../harness/net.js'
import { CHANNELS, type Channel } from './channel-client.js'

type Call = Exclude<keyof PaymentProvider, 'channel'>
const CALLS: ReadonlySet<string> = new Set<Call>([
  'create',
  'query',
  'close',
  'refund',
  'queryRefund',
])
/** No answer to a callback within this counts as none. */
const CALLBACK_MS = 5_000

/**
 * Two payment channels behind HTTP, outside of the shops: what they hold at the end is the truth about money. One call in
 * seven goes wrong (not reached, or its answer lost), and callbacks are repeated until a shop acknowledges them, some beyond.
 */
export class PaymentChannels {
  readonly port: number
  readonly #server: Server
  readonly #sandboxes: ReadonlyMap<string, SandboxPayments>
  readonly #shops: () => readonly number[]
  #undelivered = 0
  #closed = false

  private constructor(
    server: Server,
    sandboxes: ReadonlyMap<string, SandboxPayments>,
    shops: () => readonly number[],
  ) {
    this.#server = server
    this.#sandboxes = sandboxes
    this.#shops = shops
    this.port = (server.address() as AddressInfo).port
  }

  /** @param shops ports of those that take callbacks at the moment */
  static async open(shops: () => readonly number[]): Promise<PaymentChannels> {
    const sandboxes = new Map(
      CHANNELS.map((channel, i) => {
        const faults = { unreached: 0.05, lostAnswer: 0.1, delayMs: 20 }
        return [channel, new SandboxPayments({ channel, seed: i + 1, ...faults })]
      }),
    )
    const server = createServer(async (req, res) => {
      const [, channel = '', call = ''] = (req.url ?? '').split('/')
      const sandbox = sandboxes.get(channel as Channel)
      try {
        if (!sandbox || !CALLS.has(call)) throw new Error(`no ${req.url}`)
        const what = JSON.parse(await text(req)) as never
        const o: ChannelCall = { signal: AbortSignal.timeout(10_000) }
        res.end(JSON.stringify(await sandbox[call as Call](what, o)))
      } catch {
        res.destroy() // unreached or lost: to the shop they look alike
      }
    })
    await new Promise<void>((resolve) => server.listen(0, LOOPBACK, resolve))
    return new PaymentChannels(server, sandboxes, shops)
  }

  /** The buyer pays what the shop asked the channel for; false when the channel takes no money for it any more. */
  pay(channel: Channel, paymentId: string): boolean {
    const notice = (this.#sandboxes.get(channel) as SandboxPayments).pay(paymentId)
    if (!notice) return false
    const times = Math.random() < 0.3 ? 2 : 1
    for (let i = 0; i < times; i++) void this.#deliver(notice)
    return true
  }

  /** From now on every call is answered: what went wrong before must still come right. */
  calm(): void {
    for (const sandbox of this.#sandboxes.values()) sandbox.calm()
  }

  /** Callbacks that nobody has acknowledged yet. */
  get undelivered(): number {
    return this.#undelivered
  }

  /** All that came in, by channel, with what of it went back. */
  received() {
    return [...this.#sandboxes].flatMap(([channel, sandbox]) =>
      sandbox.received().map((money) => ({ channel, ...money })),
    )
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #deliver(notice: PaymentNotice): Promise<void> {
    this.#undelivered++
    while (!this.#closed) {
      await sleep(Math.random() * 200)
      const ports = this.#shops()
      const port = ports[Math.floor(Math.random() * ports.length)]
      if (port !== undefined && (await callBack(port, notice).catch(() => false))) break
    }
    this.#undelivered--
  }
}

function callBack(port: number, notice: PaymentNotice): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const o = { host: LOOPBACK, port, path: '/callback', method: 'POST', timeout: CALLBACK_MS }
    const req = request(o, (res) => {
      res.resume().on('error', reject)
      res.on('end', () => resolve(res.statusCode === 200))
    })
    req.on('timeout', () => req.destroy(new Error('timeout')))
    req.on('error', reject)
    req.end(JSON.stringify(notice))
  })
}
