import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort, LOOPBACK } from './net.js'

type Mode =
  | { readonly kind: 'pass' | 'cut' }
  | { readonly kind: 'delay'; readonly ms: number }
  | { readonly kind: 'hold'; readonly released: Promise<void>; readonly release: () => void }
  | {
      readonly kind: 'swallow'
      readonly matching: RegExp
      readonly always: boolean
      readonly share: number
    }

/** One client and its connection to the server. */
interface Link {
  readonly client: Socket
  readonly server: Socket
  /** A request was forwarded whose reply must not arrive. */
  doomed: boolean
}

/**
 * A loopback proxy in front of any TCP server, to make the network fail on purpose. It carries bytes and knows no
 * protocol; its modes are switched while connections run through it, and act on what passes from then on.
 */
export class TcpProxy {
  readonly host = LOOPBACK
  readonly port: number
  /** Since the proxy was made; `bytesToServer` and `bytesToClient` count what was forwarded. */
  readonly counts = { connections: 0, bytesToServer: 0, bytesToClient: 0, swallowed: 0 }

  readonly #listener: Server
  readonly #links = new Set<Link>()
  #target: number
  #mode: Mode = { kind: 'pass' }

  private constructor(listener: Server, target: number) {
    this.#listener = listener
    this.#target = target
    this.port = (listener.address() as AddressInfo).port
    listener.on('connection', (client) => this.#link(client))
  }

  /** Listens on a free port and forwards to `port`. */
  static async to(port: number): Promise<TcpProxy> {
    const listener = createServer({ noDelay: true, allowHalfOpen: true })
    const ownPort = await freePort()
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject)
      listener.listen(ownPort, LOOPBACK, resolve)
    })
    return new TcpProxy(listener, port)
  }

  /** Connections open now. */
  get open(): number {
    return this.#links.size
  }

  /** Back to normal; what was held flows on, in order. */
  pass(): void {
    this.#switch({ kind: 'pass' })
  }

  /** Replies reach the client `ms` later, so that a round trip takes `ms` more; requests are not delayed. */
  delay(ms: number): void {
    this.#switch({ kind: 'delay', ms })
  }

  /** Freezes both directions; connections stay open and new ones are accepted in silence, until another mode. */
  hold(): void {
    let release = () => {}
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    this.#switch({ kind: 'hold', released, release })
  }

  /**
   * The next request that matches reaches the server and is answered, but the client sees its connection die instead of
   * the answer. Once, unless `always`; then the proxy passes again. `matching` is tried on each chunk of bytes as
   * latin1, for example `/evalsha/i` or `/COMMIT/i`. With `share` a matching request is let off at random.
   */
  swallowReply(
    o: { readonly matching?: RegExp; readonly always?: boolean; readonly share?: number } = {},
  ): void {
    const { matching = /^/, always = false, share = 1 } = o
    this.#switch({ kind: 'swallow', matching, always, share })
  }

  /** Resets all connections now, and new ones at once, until another mode. */
  cut(): void {
    this.#switch({ kind: 'cut' })
    for (const link of this.#links) this.#reset(link)
  }

  /** All connections reset and none accepted for 1.5 s; half a second in which they come back; silence for 7 s. */
  async cutThenHold(): Promise<void> {
    this.cut()
    await sleep(1_500)
    this.pass()
    await sleep(500)
    this.hold()
    await sleep(7_000)
    this.pass()
  }

  /** New connections go to another server; existing ones stay where they are until cut. */
  retarget(port: number): void {
    this.#target = port
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#listener.close(() => resolve()))
    this.cut()
    await closed
  }

  #switch(mode: Mode): void {
    const before = this.#mode
    this.#mode = mode
    if (before.kind === 'hold') before.release()
  }

  #link(client: Socket): void {
    this.counts.connections++
    if (this.#mode.kind === 'cut') {
      client.on('error', () => {})
      reset(client)
      return
    }
    const server = connect({
      port: this.#target,
      host: LOOPBACK,
      noDelay: true,
      allowHalfOpen: true,
    })
    const link: Link = { client, server, doomed: false }
    this.#links.add(link)
    this.#carry(client, server, (chunk) => this.#toServer(link, chunk))
    this.#carry(server, client, (chunk, cameAt) => this.#toClient(link, chunk, cameAt))
    server.on('error', () => reset(client))
    client.on('error', () => {}) // the server hears of it by the end that follows, after what was sent before
    for (const socket of [client, server])
      socket.on('close', () => {
        if (client.destroyed && server.destroyed) this.#links.delete(link)
      })
  }

  /** Hands on chunk by chunk in the order they came, and the end after them. */
  #carry(
    from: Socket,
    to: Socket,
    forward: (chunk: Buffer, cameAt: number) => Promise<void> | void,
  ): void {
    let tail = Promise.resolve()
    const inOrder = (act: () => Promise<void> | void) => {
      tail = tail.then(async () => {
        while (this.#mode.kind === 'hold') await this.#mode.released
        await act()
      })
    }
    from.on('data', (chunk: Buffer) => {
      const cameAt = Date.now()
      inOrder(() => forward(chunk, cameAt))
    })
    for (const last of ['end', 'close']) from.on(last, () => inOrder(() => void to.end()))
  }

  #toServer(link: Link, chunk: Buffer): void {
    const mode = this.#mode
    const swallows = mode.kind === 'swallow' && mode.matching.test(chunk.toString('latin1'))
    if (swallows && Math.random() < mode.share) {
      link.doomed = true
      if (!mode.always) this.pass()
    }
    this.counts.bytesToServer += chunk.length
    link.server.write(chunk)
  }

  async #toClient(link: Link, chunk: Buffer, cameAt: number): Promise<void> {
    if (this.#mode.kind === 'delay') await sleep(Math.max(0, cameAt + this.#mode.ms - Date.now()))
    if (link.client.destroyed) return
    if (link.doomed) {
      this.counts.swallowed++
      // Towards the server the end is a polite one: a reset could make it forget requests it has not read yet.
      reset(link.client)
      return
    }
    this.counts.bytesToClient += chunk.length
    link.client.write(chunk)
  }

  #reset(link: Link): void {
    reset(link.client)
    reset(link.server)
    this.#links.delete(link)
  }
}

/** A socket that is ending politely cannot be reset any more: Node would report that, and never close it. */
function reset(socket: Socket): void {
  if (socket.writableEnded) socket.destroy()
  else socket.resetAndDestroy()
}
