import { within } from '../core/background.js'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { ActivityStore, SaleControl } from '../core/ports.js'
import { quiet } from '../core/quiet.js'
import type { Activity, Refusal } from '../core/types.js'

/** What a gate needs of the durable row. */
type Switch = Pick<SaleControl, 'state' | 'tokenEpoch'>

export interface ActivityGateOptions {
  readonly activities: ActivityStore
  /** An `ActivityControl`. */
  readonly control: { read(activityId: string): Promise<Switch> }
  /** How old a copy may be before it is read again, in ms. @defaultValue 1,000 */
  readonly refreshMs?: number
  /** How long a copy is used while it cannot be read again, in ms; then `busy`. @defaultValue 10,000 */
  readonly maxStaleMs?: number
  /** How long one read may take, in ms; then it has failed, and callers stop waiting for it. @defaultValue 2,000 */
  readonly readTimeoutMs?: number
  /** How far this process' clock may be off Redis', which decides but in strong mode, in ms. @defaultValue 5,000 */
  readonly clockLeewayMs?: number
  /** Told of every read that failed. */
  readonly onError?: (error: unknown) => void
}

export interface KnownActivity {
  readonly activity: Activity
  readonly control: Switch
}

interface Copy {
  /** Null: the host's store has no such activity. */
  known: KnownActivity | null
  readAt: number
  reading: Promise<void> | null
  /** After a read that failed, the next one waits: a store in trouble is not asked by every click. */
  retryAt: number
  /** Redis has said that this opening is still to come: refused until then, by the monotonic clock. */
  notOpen: { readonly opensAt: number; readonly until: number } | null
}

const UNREADABLE: Refusal = { status: 'busy', cause: 'probe', retryAfterMs: 1_000 }

/** However the clocks differ, somebody asks Redis this often whether the sale is open; more often as it comes near. */
const MAX_SHUT_MS = 1_000
const MIN_SHUT_MS = 20

/** Ids that nobody has on sale are remembered too, so that made-up ones do not reach the host's store again and again. */
const MAX_COPIES = 10_000

/**
 * Refuses from process memory what is not open, without touching Redis. A copy expires logically: one caller reads it
 * again while the others use the old one; only a copy twice as old as that is waited for.
 *
 * It only saves the trip: whether a unit leaves is decided in the deduct script, by Redis' clock.
 */
export class ActivityGate {
  private readonly copies = new Map<string, Copy>()
  private readonly refreshMs: number
  private readonly maxStaleMs: number
  private readonly readTimeoutMs: number
  private readonly leewayMs: number
  private readonly onError: (error: unknown) => void

  constructor(private readonly o: ActivityGateOptions) {
    check.object(o, 'options')
    this.refreshMs = check.option(o.refreshMs, 'refreshMs', 1_000, 10, 60_000)
    this.maxStaleMs = check.option(o.maxStaleMs, 'maxStaleMs', 10_000, 10, 3_600_000)
    this.readTimeoutMs = check.option(o.readTimeoutMs, 'readTimeoutMs', 2_000, 1, 60_000)
    this.leewayMs = check.option(o.clockLeewayMs, 'clockLeewayMs', 5_000, 0, 60_000)
    if (typeof o.activities?.load !== 'function')
      check.fail('BAD_OPTION', 'option activities', 'an ActivityStore', o.activities)
    if (typeof o.control?.read !== 'function')
      check.fail('BAD_OPTION', 'option control', 'an ActivityControl', o.control)
    this.onError = quiet('onError', o.onError)
  }

  /**
   * What is known of an activity; a value, not a promise, in all but the first calls. `busy` when it cannot be read.
   *
   * @throws FlashSaleError `BAD_INPUT` for what is no activity id, and when the host's store returns what is no activity
   */
  look(activityId: string): KnownActivity | Refusal | Promise<KnownActivity | Refusal> {
    const copy = this.copies.get(activityId)
    if (!copy) return this.firstLook(activityId)
    const now = performance.now()
    const age = now - copy.readAt
    if (age > this.refreshMs && (copy.reading || now >= copy.retryAt)) {
      const reading = this.read(activityId, copy)
      if (age > 2 * this.refreshMs) return reading.then(() => this.answer(copy))
    }
    return this.answer(copy)
  }

  /** Why this sale takes nobody at the moment, by this process' clock and copy; null when it may. */
  refusal({ activity, control }: KnownActivity, now: number): Refusal | null {
    check.instant(now, 'now')
    // In strong mode nobody decides after this process.
    const leewayMs = activity.mode === 'strong' ? 0 : this.leewayMs
    if (now < activity.opensAt - leewayMs) return { status: 'not-open', opensAt: activity.opensAt }
    const hint = this.copies.get(activity.activityId)?.notOpen
    if (hint?.opensAt === activity.opensAt && performance.now() < hint.until)
      return { status: 'not-open', opensAt: activity.opensAt }
    if (now >= activity.endsAt + leewayMs) return { status: 'ended' }
    if (control.state !== 'open') return { status: 'stopped' }
    return null
  }

  /**
   * Redis, whose clock decides, has refused because the sale is not open: for a while that is answered from memory, so
   * that the crowd of the last seconds is not passed on, even where this process' clock is off.
   *
   * @param inMs the time left by Redis' clock. Without it, half of what is left by this process' clock, which closes in on
   *   the opening in steps and is late by half the difference of the clocks at most. At most a second at a time.
   */
  notOpenYet(activityId: string, opensAt: number, inMs?: number): void {
    const copy = this.copies.get(activityId)
    if (!copy) return
    const left = inMs ?? Math.max((opensAt - Date.now()) / 2, MIN_SHUT_MS)
    copy.notOpen = { opensAt, until: performance.now() + Math.min(left, MAX_SHUT_MS) }
  }

  /** The next look reads again: an act of this process shows at once. */
  forget(activityId: string): void {
    this.copies.delete(activityId)
  }

  private async firstLook(activityId: string): Promise<KnownActivity | Refusal> {
    check.keyId(activityId, 'activityId')
    if (!this.makeRoom()) return UNREADABLE
    const copy: Copy = {
      known: null,
      readAt: Number.NEGATIVE_INFINITY,
      reading: null,
      retryAt: 0,
      notOpen: null,
    }
    this.copies.set(activityId, copy)
    await this.read(activityId, copy)
    return this.answer(copy)
  }

  /** False while so many first reads are under way that another would only add to the trouble. */
  private makeRoom(): boolean {
    if (this.copies.size < MAX_COPIES) return true
    const longUnread = performance.now() - this.maxStaleMs
    for (const [id, c] of this.copies)
      if (!c.reading && (c.known === null || c.readAt < longUnread)) this.copies.delete(id)
    return this.copies.size < MAX_COPIES
  }

  private answer(copy: Copy): KnownActivity | Refusal {
    if (performance.now() - copy.readAt > Math.max(this.maxStaleMs, this.refreshMs * 2))
      return UNREADABLE
    return copy.known ?? { status: 'not-found' }
  }

  private read(activityId: string, copy: Copy): Promise<void> {
    copy.reading ??= within(this.load(activityId), this.readTimeoutMs, () => {
      throw new Error(`activity ${activityId} was not read within ${this.readTimeoutMs} ms`)
    })
      .then(
        (known) => {
          copy.known = known
          copy.readAt = performance.now()
        },
        (error: unknown) => {
          copy.retryAt = performance.now() + this.refreshMs / 4
          this.onError(error)
          if (error instanceof FlashSaleError && error.code === 'BAD_INPUT') throw error
        },
      )
      .finally(() => {
        copy.reading = null
      })
    // Whoever does not wait for it must not crash the process by it; the next reader hears the same.
    copy.reading.catch(() => {})
    return copy.reading
  }

  private async load(activityId: string): Promise<KnownActivity | null> {
    const [activity, control] = await Promise.all([
      this.o.activities.load(activityId),
      this.o.control.read(activityId),
    ])
    if (activity === null) return null
    const known = { activity: check.activity(activity), control: saleControl(control) }
    // A store that takes 'A1' for 'a1' (a collation does) must not make two names of one sale.
    return known.activity.activityId === activityId ? known : null
  }
}

function saleControl(value: Switch): Switch {
  check.object(value, 'control')
  return {
    state: check.oneOf(value.state, 'control.state', ['open', 'stopped']),
    tokenEpoch: check.int(value.tokenEpoch, 'control.tokenEpoch', 0, 1e12),
  }
}
