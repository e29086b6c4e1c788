import { every, follow, within } from '../core/background.js'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { Background } from '../core/ports.js'
import { quiet } from '../core/quiet.js'
import type { Busy } from '../core/types.js'

/** One number that says how far behind the slower parts are. Ready-made ones are in `probes`. */
export interface Probe {
  readonly name: string
  /** At or above it the gate closes. */
  readonly high: number
  /** At or below it the gate reopens; smaller than `high`. */
  readonly low: number
  /** `unknown` when it cannot tell. The signal aborts when nobody waits for the answer any more. */
  read(signal: AbortSignal): number | 'unknown' | Promise<number | 'unknown'>
}

export interface BackpressureGateOptions {
  readonly probes: readonly Probe[]
  /** Pause between two readings of a probe, in ms. @defaultValue 250 */
  readonly intervalMs?: number
  /** How long a reading may take, in ms; later it is `unknown`. @defaultValue 1,000 */
  readonly timeoutMs?: number
  /** How long a probe may be unknown before it closes the gate, in ms. @defaultValue 5,000 */
  readonly closeAfterUnknownMs?: number
  /** What a refused buyer is told to wait, in ms. @defaultValue 1,000 */
  readonly retryAfterMs?: number
  /** Told of every change of a probe's verdict. */
  readonly onChange?: (reading: ProbeReading) => void
  /** Told what a probe threw, or how it lied. */
  readonly onError?: (error: unknown) => void
}

export interface ProbeReading {
  readonly name: string
  /** The last number it gave; null when it never did. */
  readonly value: number | null
  /** Since it gave it, in ms (before the first: since the gate was made). */
  readonly ageMs: number
  readonly state: 'open' | 'high' | 'unknown'
}

interface Watched {
  readonly probe: Probe
  value: number | null
  /** By the monotonic clock. */
  knownAt: number
  high: boolean
  reported: ProbeReading['state']
  /** A reading that outlived its deadline; the next one waits for it, up to ten deadlines. */
  hungUntil: number
}

const OPEN = Object.freeze({ status: 'open' })

/**
 * Closes admission while something behind it is too far behind, and opens it again below a lower mark: between the two
 * marks it stays as it is, so that a number that dances around one of them does not make it flap.
 *
 * What cannot be read is not taken for fine: a probe that throws, hangs, or gives what is no number from 0 up, closes the
 * gate after `closeAfterUnknownMs`, and opens it again by itself when it is well. So does a gate that nobody started.
 */
export class BackpressureGate implements Background {
  private readonly watched: readonly Watched[]
  private readonly loops: readonly Background[]
  private readonly busy: Busy
  private readonly timeoutMs: number
  private readonly closeAfterUnknownMs: number
  private readonly onChange: (reading: ProbeReading) => void
  private readonly onError: (error: unknown) => void

  constructor(o: BackpressureGateOptions) {
    check.object(o, 'options')
    if (!Array.isArray(o.probes) || o.probes.length < 1 || o.probes.length > 100)
      check.fail('BAD_OPTION', 'option probes', '1 to 100 probes', o.probes)
    this.onChange = quiet('onChange', o.onChange)
    this.onError = quiet('onError', o.onError)
    const everyMs = check.option(o.intervalMs, 'intervalMs', 250, 1, 60_000)
    this.timeoutMs = check.option(o.timeoutMs, 'timeoutMs', 1_000, 1, 60_000)
    this.closeAfterUnknownMs = check.option(
      o.closeAfterUnknownMs,
      'closeAfterUnknownMs',
      5_000,
      1,
      600_000,
    )
    const retryAfterMs = check.option(o.retryAfterMs, 'retryAfterMs', 1_000, 1, 600_000)
    this.busy = Object.freeze({ status: 'busy', cause: 'probe', retryAfterMs })
    const knownAt = performance.now()
    this.watched = o.probes.map((probe, i) => ({
      probe: checkProbe(probe, `probes[${i}]`),
      value: null,
      knownAt,
      high: false,
      reported: 'open' as const,
      hungUntil: knownAt,
    }))
    this.loops = this.watched.map((w) =>
      every({ everyMs, work: (signal) => this.poll(w, signal), onError: () => {} }),
    )
  }

  /** Memory only. */
  check(): { readonly status: 'open' } | Busy {
    const now = performance.now()
    for (const w of this.watched) if (this.state(w, now) !== 'open') return this.busy
    return OPEN as { readonly status: 'open' }
  }

  /** For a dashboard. */
  readings(): readonly ProbeReading[] {
    const now = performance.now()
    return this.watched.map((w) => this.reading(w, now))
  }

  async start(): Promise<void> {
    await Promise.all(this.loops.map((loop) => loop.start()))
  }

  async stop(o?: { readonly drainMs?: number }): Promise<void> {
    await Promise.all(this.loops.map((loop) => loop.stop(o)))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  private state(w: Watched, now: number): ProbeReading['state'] {
    if (now - w.knownAt > this.closeAfterUnknownMs) return 'unknown'
    return w.high ? 'high' : 'open'
  }

  private reading(w: Watched, now: number): ProbeReading {
    const ageMs = Math.round(now - w.knownAt)
    return { name: w.probe.name, value: w.value, ageMs, state: this.state(w, now) }
  }

  private async poll(w: Watched, stopped: AbortSignal): Promise<void> {
    if (performance.now() >= w.hungUntil) {
      const value = await this.ask(w, stopped)
      if (value !== 'unknown') this.learn(w, value)
    }
    if (!stopped.aborted) this.announce(w)
  }

  private learn(w: Watched, value: number): void {
    w.value = value
    w.knownAt = performance.now()
    if (value >= w.probe.high) w.high = true
    else if (value <= w.probe.low) w.high = false
  }

  /** Never rejects: what goes wrong is `unknown`. */
  private async ask(w: Watched, stopped: AbortSignal): Promise<number | 'unknown'> {
    const abort = new AbortController()
    const unfollow = follow(abort, stopped)
    const { name } = w.probe
    try {
      const asked = Promise.resolve(w.probe.read(abort.signal))
      const settled = () => {
        w.hungUntil = Number.NEGATIVE_INFINITY
      }
      asked.then(settled, settled)
      const value = await within(asked, this.timeoutMs, () => {
        w.hungUntil = performance.now() + 10 * this.timeoutMs
        abort.abort()
        throw new Error(`probe ${name} gave nothing within ${this.timeoutMs} ms`)
      })
      if (value === 'unknown' || (Number.isFinite(value) && value >= 0)) return value
      throw new FlashSaleError(
        'BAD_INPUT',
        `probe ${name} must give a number from 0 up, got ${check.show(value)}`,
      )
    } catch (error) {
      if (!stopped.aborted) this.onError(error)
      return 'unknown'
    } finally {
      unfollow()
    }
  }

  private announce(w: Watched): void {
    const reading = this.reading(w, performance.now())
    if (reading.state === w.reported) return
    w.reported = reading.state
    this.onChange(reading)
  }
}

function checkProbe(probe: Probe, name: string): Probe {
  check.object(probe, `option ${name}`)
  if (typeof probe.name !== 'string' || probe.name === '')
    check.fail('BAD_OPTION', `option ${name}.name`, 'a string', probe.name)
  if (typeof probe.read !== 'function')
    check.fail('BAD_OPTION', `option ${name}.read`, 'a function', probe.read)
  if (!Number.isFinite(probe.high) || probe.high <= 0)
    check.fail('BAD_OPTION', `option ${name}.high`, 'a number above 0', probe.high)
  if (!Number.isFinite(probe.low) || probe.low < 0 || probe.low >= probe.high)
    check.fail(
      'BAD_OPTION',
      `option ${name}.low`,
      `from 0 to less than high (${probe.high})`,
      probe.low,
    )
  return probe
}
