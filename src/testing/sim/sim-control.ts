import type { ActivityControl, ActivityStore, LastAct } from '../../core/ports.js'
import type { Activity, Audit, SaleState } from '../../core/types.js'
import { AUDIT } from './names.js'

export function simActivities(activity: Activity): ActivityStore {
  return {
    load: async (id) => (id === activity.activityId ? activity : null),
    live: async () => [activity.activityId],
  }
}

/** Rules of the durable row that a run may do without. */
export interface ControlRules {
  /** A stop is told to Redis only. */
  readonly losesStops?: true
  /** What is to be written only if nobody has acted since is written all the same. */
  readonly actsBlindly?: true
}

/** The durable row behind stop and open, as one database has it. */
export class SimControl implements ActivityControl {
  private act: LastAct | null = null
  /** How often it was opened. */
  opened = 0
  /** A person's stop was undone, and not by a person: they open once, when a run begins. */
  overruled = false

  constructor(private readonly rules: ControlRules) {}

  get isOpen(): boolean {
    return this.act?.state === 'open'
  }

  /** Stopped, and not by a person. */
  get isOurs(): boolean {
    return this.act?.state === 'stopped' && this.act.actor !== AUDIT.actor
  }

  async read() {
    const { state = 'stopped' as const, revision = 0 } = this.act ?? {}
    return { state, tokenEpoch: 1, revision }
  }

  async lastAct() {
    return this.act
  }

  async set(_: string, state: SaleState, audit: Audit) {
    if (state === 'stopped' && this.rules.losesStops) return this.act?.revision ?? 0
    return this.put(state, audit)
  }

  private put(state: SaleState, { actor, reason }: Audit): number {
    if (state === 'open') {
      this.opened++
      const stopped = this.act?.state === 'stopped' && this.act.actor === AUDIT.actor
      this.overruled ||= stopped && this.opened > 1
    }
    const revision = (this.act?.revision ?? 0) + 1
    this.act = { state, actor, reason, revision }
    return revision
  }

  async setIf(_: string, to: SaleState, audit: Audit, revision: number) {
    if ((this.act?.revision ?? 0) !== revision && !this.rules.actsBlindly) return null
    return this.put(to, audit)
  }

  async revokeTokens() {
    return 1
  }

  async readConsumers() {
    return 'running' as const
  }

  async setConsumers() {}
}
