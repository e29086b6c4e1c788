import { setTimeout as sleep } from 'node:timers/promises'
import { latencyOf } from '../../scripts/load/step.js'
import { Browser } from './ask.js'

export interface Clicked {
  readonly status: string
  readonly http: number
  readonly tookMs: number
  /** By `performance.now()`. */
  readonly answeredAt: number
}

/** People beside the crowd, each with one click and no patience, in whatever number a second. */
export class Storm {
  readonly #browser = new Browser()
  #people = 0

  constructor(
    private readonly shops: () => readonly number[],
    /** Told of every number that somebody was told. */
    private readonly onQueued: (orderNo: string, userId: string) => void,
  ) {}

  /**
   * So many at a time, each followed by the next as soon as he was answered. Returns how many a second were admitted, once
   * a second has gone by.
   */
  async asFastAsAnswered(callers: number, ms: number): Promise<number> {
    const begun = performance.now()
    let admitted = 0
    const caller = async () => {
      while (performance.now() < begun + 1_000 + ms) {
        const { status, answeredAt } = await this.#click()
        if (status === 'queued' && answeredAt > begun + 1_000) admitted++
      }
    }
    await Promise.all(Array.from({ length: callers }, caller))
    return Math.round((admitted / (performance.now() - begun - 1_000)) * 1_000)
  }

  /** So many a second, whether or not those before were answered. Resolves when the last was. */
  async atRate(perSecond: number, ms: number): Promise<readonly Clicked[]> {
    const begun = performance.now()
    const clicks: Promise<Clicked>[] = []
    for (let now = begun; now < begun + ms; now = performance.now()) {
      const due = ((now - begun) / 1_000) * perSecond
      while (clicks.length < due) clicks.push(this.#click())
      await sleep(5)
    }
    return Promise.all(clicks)
  }

  close(): void {
    this.#browser.close()
  }

  async #click(): Promise<Clicked> {
    const userId = `s${this.#people++}`
    const ports = this.shops()
    const port = ports[this.#people % ports.length] as number
    const at = performance.now()
    const { status, http, body } = await this.#browser.ask(port, 'POST', `/click?user=${userId}`)
    if (status === 'queued') this.onQueued(String(body['orderNo']), userId)
    const answeredAt = performance.now()
    return { status, http, tookMs: answeredAt - at, answeredAt }
  }
}

export function figuresOf(clicked: readonly Clicked[]): Record<string, number> {
  const { p50, p99, max } = latencyOf(clicked.map((c) => c.tookMs))
  const share = (of: string) => clicked.filter((c) => c.status === of).length
  return { clicks: clicked.length, queued: share('queued'), p50Ms: p50, p99Ms: p99, maxMs: max }
}
