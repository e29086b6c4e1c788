import { every } from '../core/background.js'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { ActivityStore, Background, FlashSaleEvents, Leases } from '../core/ports.js'
import { quiet } from '../core/quiet.js'
import type { Repaired, Report } from './findings.js'
import { Hold } from './hold.js'
import type { TriangleReconciler } from './triangle-reconciler.js'

export interface ReconcileRunnerOptions {
  readonly reconciler: TriangleReconciler
  readonly activities: ActivityStore
  /** Lets one process at a time look after an activity. */
  readonly leases: Leases
  /** Told of `reconcile-failed`: an activity that could not be reconciled. */
  readonly events?: Pick<FlashSaleEvents, 'onAlert'>
  /** Told of each run; `repaired` is empty where nothing was to be repaired. */
  readonly onReport?: (report: Report, repaired: readonly Repaired[]) => void
  /** Repairs what it finds; `false`: only reports. @defaultValue true */
  readonly repair?: boolean
  /** How long it waits between two rounds over the live activities, in ms. @defaultValue 60,000 (the source's minute) */
  readonly everyMs?: number
  /** How long a process that died keeps the others from an activity, in ms. @defaultValue 30,000 */
  readonly leaseMs?: number
}

/**
 * Reconciles all live activities, one after the other, each minute, during the sale and after its end, until they are
 * retired. Any number of processes may run one: a lease for each activity lets one of them do it, and one that lost its
 * lease stops before its next write.
 */
export class ReconcileRunner implements Background {
  readonly #o: ReconcileRunnerOptions
  readonly #leaseMs: number
  readonly #loop: Background
  readonly #alert: (code: string, detail: { readonly [key: string]: unknown }) => void
  readonly #onReport: (report: Report, repaired: readonly Repaired[]) => void

  constructor(o: ReconcileRunnerOptions) {
    check.object(o, 'options')
    for (const name of ['reconciler', 'activities', 'leases'] as const)
      if (typeof o[name] !== 'object' || o[name] === null)
        check.fail('BAD_OPTION', `option ${name}`, 'given', o[name])
    if (o.repair !== undefined && typeof o.repair !== 'boolean')
      check.fail('BAD_OPTION', 'option repair', 'true or false', o.repair)
    this.#o = o
    this.#leaseMs = check.option(o.leaseMs, 'leaseMs', 30_000, 100, 86_400_000)
    this.#alert = quiet('events.onAlert', o.events?.onAlert, o.events)
    this.#onReport = quiet('onReport', o.onReport)
    this.#loop = every({
      everyMs: check.option(o.everyMs, 'everyMs', 60_000, 10, 86_400_000),
      work: (signal) => this.run(signal),
      onError: (error) => this.#alert('reconcile-failed', { error }),
    })
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  stop(o?: { readonly drainMs?: number }): Promise<void> {
    return this.#loop.stop(o)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  /** One round over all live activities, also on demand. One that fails does not hold up the others. */
  async run(signal?: AbortSignal): Promise<void> {
    for (const activityId of await this.#o.activities.live()) {
      if (signal?.aborted) return
      try {
        await this.runOne(activityId, signal)
      } catch (error) {
        if (signal?.aborted) return
        this.#alert('reconcile-failed', { activityId, error })
      }
    }
  }

  /** One activity, unless another process is at it, it is in strong mode (Redis has none of it), or not warmed up yet. */
  async runOne(
    activityId: string,
    signal?: AbortSignal,
  ): Promise<Report | 'elsewhere' | 'not-due'> {
    const activity = await this.#o.activities.load(check.keyId(activityId, 'activityId'))
    if (activity?.mode === 'strong') return 'not-due'
    const askedAt = performance.now()
    const lease = await this.#o.leases.take(`reconcile ${activityId}`, this.#leaseMs)
    if (!lease) return 'elsewhere'
    const hold = new Hold(lease, this.#leaseMs, askedAt, signal)
    try {
      return await this.#reconcile(activityId, hold)
    } catch (error) {
      const early = activity !== null && Date.now() < activity.opensAt
      if (early && error instanceof FlashSaleError && error.code === 'NOT_WARMED') return 'not-due'
      throw error
    } finally {
      // A lease that cannot be given back runs out.
      await hold.end().catch(() => undefined)
    }
  }

  async #reconcile(activityId: string, hold: Hold): Promise<Report> {
    const { signal } = hold
    const report = await this.#o.reconciler.inspect(activityId, signal)
    const repaired =
      this.#o.repair === false || report.findings.length === 0
        ? []
        : await this.#o.reconciler.repair(report.findings, {
            signal,
            mayWrite: () => hold.isMine(),
          })
    this.#onReport(report, repaired)
    return report
  }
}
