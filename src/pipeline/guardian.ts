import { every, follow } from '../core/background.js'
import * as check from '../core/check.js'
import type { Background, LastAct, Lease, Leases } from '../core/ports.js'
import type { RedisStanding } from '../core/reconcile.js'
import type { Activity } from '../core/types.js'
import { type RebuildParts, type Rebuilt, rebuildSale } from '../reconcile/rebuild.js'
import { isOwnStop, KEEPER, stopReason } from '../reconcile/rebuild-stop.js'
import { keysExpireAt } from '../stock/warm-up.js'
import type { Alert } from './alerts.js'

export interface GuardianOptions {
  /** Of all processes that run a guardian, one acts. */
  readonly leases: Leases
  /** How often it looks, in ms. @defaultValue 1,000 */
  readonly everyMs?: number
}

export interface GuardianParts extends RebuildParts {
  readonly activities: RebuildParts['activities'] & { live(): Promise<readonly string[]> }
  readonly stock: RebuildParts['stock'] & {
    expect(activityId: string, fence: { readonly epoch: number; readonly seq: number }): void
  }
  /** The process' copies of an activity are old. */
  readonly changed: (activity: Activity) => void
  readonly alert: Alert
}

const LEASE = 'redis-guardian'
const LEASE_MS = 15_000

/**
 * Watches the Redis of all live activities, and carries a sale over its loss: stops it, rebuilds it from the database, and
 * opens it again. It opens only what the library itself has stopped; a person's stop it puts into force where Redis has
 * forgotten it. Any number of processes may run one.
 */
export class RedisGuardian implements Background {
  private readonly leases: Leases
  private readonly loop: Background
  private lease: Lease | null = null
  /** What was reported, so that it is reported once. */
  private readonly reported = new Map<string, string>()
  /** Revision of the row at which Redis was found stopped though the row says open. */
  private readonly shut = new Map<string, number>()

  constructor(
    private readonly parts: GuardianParts,
    o: GuardianOptions,
  ) {
    check.object(o, 'options')
    if (typeof o.leases?.take !== 'function')
      check.fail('BAD_OPTION', 'option leases', 'Leases', o.leases)
    this.leases = o.leases
    this.loop = every({
      everyMs: check.option(o.everyMs, 'everyMs', 1_000, 10, 60_000),
      work: (signal) => this.run(signal),
      onError: (error) => parts.alert('guardian-failed', { error }),
    })
  }

  start(): Promise<void> {
    return this.loop.start()
  }

  async stop(o?: { readonly drainMs?: number }): Promise<void> {
    await this.loop.stop(o)
    const { lease } = this
    this.lease = null
    await lease?.release().catch(() => undefined) // it runs out by itself
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  /** One round over all live activities, by the process that holds the lease. */
  async run(signal: AbortSignal = new AbortController().signal): Promise<void> {
    if (!(await this.holdsLease())) return
    const ended = new AbortController()
    const unfollow = follow(ended, signal)
    const renewing = setInterval(() => {
      this.holdsLease().then(
        (held) => held || ended.abort(),
        () => ended.abort(),
      )
    }, LEASE_MS / 3)
    try {
      const until = ended.signal
      for (const activityId of await this.parts.activities.live()) {
        if (until.aborted) return
        await this.watch(activityId, until).catch((error: unknown) => {
          if (!until.aborted) this.parts.alert('guardian-failed', { activityId, error })
        })
      }
    } finally {
      clearInterval(renewing)
      unfollow()
    }
  }

  private async holdsLease(): Promise<boolean> {
    if (this.lease && !(await this.lease.renew(LEASE_MS))) this.lease = null
    this.lease ??= await this.leases.take(LEASE, LEASE_MS)
    return this.lease !== null
  }

  private async watch(activityId: string, signal: AbortSignal): Promise<void> {
    const { stock, control, fences, activities } = this.parts
    const activity = await activities.load(activityId)
    if (!activity || activity.mode === 'strong' || Date.now() >= keysExpireAt(activity)) return
    const last = await control.lastAct(activityId)
    if (!last) return
    // What was ever seen is read before Redis is: only then a Redis that knows less has gone back.
    if (fences) stock.expect(activityId, await fences.read(activityId))
    const standing = await stock.standing(activity)
    this.reportEviction(activityId, standing)
    if (isOwnStop(last)) return this.recover(activity, last.reason, signal)
    if (last.state === 'stopped') return this.keepStopped(activityId, last, standing)
    switch (standing.status) {
      case 'rewound':
        return this.recover(activity, stopReason('went back in time'), signal)
      case 'not-warmed':
        return this.recover(activity, stopReason('lost keys of the sale'), signal)
      case 'corrupt':
        // Nothing is sold from it, and what was tampered with is for a person to see.
        if (this.isNew(`corrupt ${activityId}`, String(standing.epoch)))
          this.parts.alert('stock-corrupt', { activityId })
        return
      case 'warm':
        await fences?.raise(activityId, standing)
        return this.keepOpen(activityId, last, standing)
      default:
        return standing.status satisfies never
    }
  }

  private async recover(activity: Activity, reason: string, signal: AbortSignal): Promise<void> {
    const { activityId } = activity
    const { alert } = this.parts
    const begun = performance.now()
    alert('redis-lost', { activityId, reason })
    const audit = { actor: KEEPER, reason }
    const rebuilt = await rebuildSale(this.parts, activityId, audit, { reopen: true, signal })
    this.parts.changed(activity)
    this.reportRebuilt(activityId, rebuilt, Math.round(performance.now() - begun))
  }

  private reportRebuilt(activityId: string, rebuilt: Rebuilt, tookMs: number): void {
    const { alert } = this.parts
    if (rebuilt.status !== 'rebuilt') {
      // `overtaken` is somebody else's success; the next round sees what there is.
      if (rebuilt.status !== 'overtaken') alert('rebuild-failed', { activityId, ...rebuilt })
      return
    }
    alert('redis-rebuilt', { activityId, tookMs, ...rebuilt })
    if (rebuilt.state === 'stopped') alert('left-stopped', { activityId })
  }

  /** A failover may take a stop back that a person has made; each process refuses by the durable row within a second. */
  private async keepStopped(
    activityId: string,
    last: LastAct,
    standing: RedisStanding,
  ): Promise<void> {
    if (standing.state !== 'open' || standing.status === 'not-warmed') return
    await this.parts.stock.control(activityId, 'stopped', last.revision)
    this.parts.alert('stop-reapplied', { activityId })
  }

  /** The durable row says open and Redis does not: the guardian's own opening is finished, a person's is reported. */
  private async keepOpen(
    activityId: string,
    last: LastAct,
    standing: RedisStanding,
  ): Promise<void> {
    if (standing.state === 'open') {
      this.shut.delete(activityId)
    } else if (last.actor === KEEPER) {
      await this.parts.stock.control(activityId, 'open', last.revision)
    } else if (this.shut.get(activityId) !== last.revision) {
      // The row is written first: an opening that is under way looks the same for a moment.
      this.shut.set(activityId, last.revision)
    } else if (this.isNew(`open-lost ${activityId}`, String(last.revision))) {
      this.parts.alert('open-lost', { activityId })
    }
  }

  private reportEviction(activityId: string, { eviction }: RedisStanding): void {
    if (eviction !== 'noeviction' && this.isNew(`eviction ${activityId}`, eviction))
      this.parts.alert('eviction-policy', { activityId, eviction })
  }

  private isNew(topic: string, what: string): boolean {
    if (this.reported.get(topic) === what) return false
    this.reported.set(topic, what)
    return true
  }
}
