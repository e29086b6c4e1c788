import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, Browser } from './ask.js'
import { CHANNELS, type Channel } from './channel-client.js'
import type { PaymentChannels } from './channels.js'

/** One question put to a shop. */
export interface Asked {
  readonly what: 'click' | 'late-click' | 'result' | 'pay'
  /** `performance.now()` when it was asked. */
  readonly at: number
  readonly tookMs: number
  readonly http: number
  readonly status: string
  /** An answer that was given before. */
  readonly replayed: boolean
}

export interface CrowdSize {
  readonly buyers: number
  /** So many click at a time; the next comes `pauseMs` after one has heard what he can buy. */
  readonly concurrency: number
  readonly pauseMs: number
  /** How long they may leave an order unpaid. */
  readonly payWithinMs: number
}

/** After these a buyer goes home, or follows his order. */
const FINAL: ReadonlySet<string> = new Set(['queued', 'sold-out', 'already-bought', 'ended'])
/** Answers to "I want to pay" that are not for asking again. */
const DEFINITE: ReadonlySet<string> = new Set(['created', 'paid', 'closed', 'too-late', 'free'])
const PATIENCE_MS = 90_000
/** The first wait for a result; each further one is half as long again, up to two seconds. */
const POLL_MS = 400

/**
 * Buyers who click until they are told something final, whichever shop is up. One in ten clicks once more. Who is told a
 * number asks until it is decided; of the confirmed seven
 * in ten pay, one pays on both channels, half a one about when his time is up, the others never do.
 */
export class Crowd {
  readonly asked: Asked[] = []
  /** Who was told `queued` with which number. */
  readonly told = new Map<string, string>()
  /** Numbers of which a buyer was told that they are confirmed or paid. */
  readonly promised = new Set<string>()
  /** Buyers who never heard anything final, or of whose order nobody ever said what became of it. */
  readonly undecided: string[] = []
  readonly #browser = new Browser()
  readonly #following: Promise<void>[] = []
  #next = 0

  constructor(
    private readonly size: CrowdSize,
    private readonly channels: PaymentChannels,
    /** Ports of the shops that sell at the moment. */
    private readonly shops: () => readonly number[],
  ) {}

  /** Resolves when the last buyer has gone home, and no order that was told is undecided. */
  async run(): Promise<void> {
    const { buyers, concurrency, pauseMs } = this.size
    const lane = async () => {
      while (this.#next < buyers) {
        await this.#buyer(`u${this.#next++}`)
        await sleep(pauseMs * (0.5 + Math.random()))
      }
    }
    await Promise.all(Array.from({ length: concurrency }, lane))
    await Promise.all(this.#following)
  }

  /** Somebody who comes when all others have gone; whether he was sold something, or told that there is nothing left. */
  async late(): Promise<boolean> {
    const before = this.undecided.length
    await this.#click('u-late', 'late-click')
    await Promise.all(this.#following)
    return this.undecided.length === before
  }

  close(): void {
    this.#browser.close()
  }

  async #buyer(userId: string): Promise<void> {
    await this.#click(userId)
    if (Math.random() < 0.1) await this.#click(userId)
  }

  async #click(userId: string, what: 'click' | 'late-click' = 'click'): Promise<void> {
    const end = performance.now() + PATIENCE_MS
    while (performance.now() < end) {
      const { status, body } = await this.#ask(what, 'POST', `/click?user=${userId}`)
      if (status === 'queued') this.#follow(userId, String(body['orderNo']))
      if (FINAL.has(status)) return
      const again = Number(body['retryAfterMs'] ?? 300) // what the page's own client does, too
      await sleep(again * (0.5 + Math.random()))
    }
    this.undecided.push(userId)
  }

  #follow(userId: string, orderNo: string): void {
    if (this.told.has(orderNo)) return
    this.told.set(orderNo, userId)
    this.#following.push(this.#live(userId, orderNo))
  }

  /** From `queued` to whatever becomes of it. */
  async #live(userId: string, orderNo: string): Promise<void> {
    const about = `user=${userId}&orderNo=${orderNo}`
    const payer = payerOf(Math.random(), this.size.payWithinMs)
    let paying: Promise<void> | null = null
    const end = performance.now() + PATIENCE_MS
    for (let wait = POLL_MS; performance.now() < end; wait = Math.min(2_000, wait * 1.5)) {
      await sleep(wait)
      const { status } = await this.#ask('result', 'GET', `/result?${about}`)
      if (status === 'confirmed' || status === 'paid') this.promised.add(orderNo)
      // Who does not pay leaves the shop; the deadline closes his order.
      if (status === 'confirmed' && payer.channels.length === 0) return
      if (status === 'confirmed') paying ??= this.#pay(about, payer)
      if (status === 'closed' || status === 'paid') return paying ?? undefined
    }
    this.undecided.push(`${userId} ${orderNo}`)
  }

  /** All cashiers first: a second payment of a PAID order no shop would open. Again until the shop has an answer. */
  async #pay(about: string, { channels, afterMs }: Payer): Promise<void> {
    const open: [Channel, string][] = []
    for (const channel of channels)
      for (let tries = 0; tries < 20; tries++) {
        const { status, body } = await this.#ask('pay', 'POST', `/pay?${about}&channel=${channel}`)
        const { paymentId } = (body['payment'] ?? {}) as { readonly paymentId?: string }
        if (paymentId !== undefined) open.push([channel, paymentId])
        if (DEFINITE.has(status)) break
        await sleep(POLL_MS)
      }
    await sleep(afterMs)
    for (const [channel, paymentId] of open) this.channels.pay(channel, paymentId)
  }

  async #ask(what: Asked['what'], method: 'GET' | 'POST', path: string): Promise<Answer> {
    const ports = this.shops()
    const port = ports[Math.floor(Math.random() * ports.length)]
    if (port === undefined) return { http: 0, status: 'no-shop', body: {} }
    const at = performance.now()
    const answer = await this.#browser.ask(port, method, path)
    const { http, status, body } = answer
    const tookMs = Math.round(performance.now() - at)
    this.asked.push({ what, at, tookMs, http, status, replayed: body['replayed'] === true })
    return answer
  }
}

interface Payer {
  readonly channels: readonly Channel[]
  readonly afterMs: number
}

function payerOf(dice: number, payWithinMs: number): Payer {
  if (dice < 0.7) return { channels: [CHANNELS[0]], afterMs: 0 }
  if (dice < 0.8) return { channels: CHANNELS, afterMs: 0 }
  if (dice < 0.85) return { channels: [CHANNELS[0]], afterMs: payWithinMs }
  return { channels: [], afterMs: 0 }
}
