import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { ActivityControl, ActivityStore, SaleControl } from '../core/ports.js'
import type { Activity, Refusal } from '../core/types.js'

export interface ActivityGateOptions {
  readonly activities: ActivityStore
  readonly control: ActivityControl
  /** How old a copy may be before it is read again, in ms. @defaultValue 1,000 */
  readonly refreshMs?: number
  /** How long a copy is used while it cannot be read again, in ms; then `busy`. @defaultValue 10,000 */
  readonly maxStaleMs?: number
  /** How far this process' clock may be off Redis', which decides, in ms. @defaultValue 5,000 */
  readonly clockLeewayMs?: number
  /** Told of every read that failed. */
  readonly onError?: (error: unknown) => void
}

export interface KnownActivity {
  readonly activity: Activity
  readonly control: SaleControl
}

interface Copy {
  /** Null: the host's store has no such activity. */
  known: KnownActivity | null
  readAt: number
  reading: Promise<void> | null
}

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
  private readonly leewayMs: number

  constructor(private readonly o: ActivityGateOptions) {
    check.object(o, 'options')
    this.refreshMs = check.option(o.refreshMs, 'refreshMs', 1_000, 10, 60_000)
    this.maxStaleMs = check.option(o.maxStaleMs, 'maxStaleMs', 10_000, 10, 3_600_000)
    this.leewayMs = check.option(o.clockLeewayMs, 'clockLeewayMs', 5_000, 0, 60_000)
    if (typeof o.activities?.load !== 'function')
      check.fail('BAD_OPTION', 'option activities', 'an ActivityStore', o.activities)
    if (typeof o.control?.read !== 'function')
      check.fail('BAD_OPTION', 'option control', 'an ActivityControl', o.control)
  }

  /**
   * What is known of an activity; a value, not a promise, in all but the first calls. `busy` when it cannot be read.
   *
   * @throws FlashSaleError `BAD_INPUT` when the host's store returns what is not an activity
   */
  look(activityId: string): KnownActivity | Refusal | Promise<KnownActivity | Refusal> {
    const copy = this.copies.get(activityId)
    if (!copy) return this.firstLook(activityId)
    const age = performance.now() - copy.readAt
    if (age > this.refreshMs) {
      const reading = this.read(activityId, copy)
      if (age > 2 * this.refreshMs) return reading.then(() => this.answer(copy))
    }
    return this.answer(copy)
  }

  /** Why this sale takes nobody at the moment, by this process' clock and copy; null when it may. */
  refusal({ activity, control }: KnownActivity, now: number): Refusal | null {
    if (now < activity.opensAt - this.leewayMs)
      return { status: 'not-open', opensAt: activity.opensAt }
    if (now >= activity.endsAt + this.leewayMs) return { status: 'ended' }
    if (control.state !== 'open') return { status: 'stopped' }
    return null
  }

  /** The next look reads again: an act of this process shows at once. */
  forget(activityId: string): void {
    this.copies.delete(activityId)
  }

  private async firstLook(activityId: string): Promise<KnownActivity | Refusal> {
    if (this.copies.size >= MAX_COPIES) {
      for (const [id, c] of this.copies) if (c.known === null && !c.reading) this.copies.delete(id)
    }
    const copy: Copy = { known: null, readAt: Number.NEGATIVE_INFINITY, reading: null }
    this.copies.set(activityId, copy)
    await this.read(activityId, copy)
    return this.answer(copy)
  }

  private answer(copy: Copy): KnownActivity | Refusal {
    if (performance.now() - copy.readAt > Math.max(this.maxStaleMs, this.refreshMs * 2))
      return { status: 'busy', cause: 'probe', retryAfterMs: 1_000 }
    return copy.known ?? { status: 'not-found' }
  }

  private read(activityId: string, copy: Copy): Promise<void> {
    copy.reading ??= this.load(activityId)
      .then(
        (known) => {
          copy.known = known
          copy.readAt = performance.now()
        },
        (error: unknown) => {
          this.o.onError?.(error)
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
    return activity === null ? null : { activity: check.activity(activity), control }
  }
}
