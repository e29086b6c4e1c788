import type { ActivityControl, ActivityStore, LastAct } from '../../core/ports.js'
import type { Activity, Audit, SaleState } from '../../core/types.js'

export function simActivities(activity: Activity): ActivityStore {
  return {
    load: async (id) => (id === activity.activityId ? activity : null),
    live: async () => [activity.activityId],
  }
}

/** The durable row behind stop and open, as one database has it. */
export class SimControl implements ActivityControl {
  private act: LastAct | null = null
  /** How often it was opened. */
  opened = 0

  /** @param stopsAreLost a stop is told to Redis only */
  constructor(private readonly stopsAreLost: boolean) {}

  async read() {
    return { state: this.act?.state ?? ('stopped' as const), tokenEpoch: 1 }
  }

  async lastAct() {
    return this.act
  }

  async set(_: string, state: SaleState, audit: Audit) {
    if (state === 'stopped' && this.stopsAreLost) return
    this.put(state, audit)
  }

  private put(state: SaleState, { actor, reason }: Audit): void {
    if (state === 'open') this.opened++
    this.act = { state, actor, reason, revision: (this.act?.revision ?? 0) + 1 }
  }

  async setIf(_: string, to: SaleState, audit: Audit, revision: number) {
    if ((this.act?.revision ?? 0) !== revision) return false
    this.put(to, audit)
    return true
  }

  async revokeTokens() {
    return 1
  }

  async readConsumers() {
    return 'running' as const
  }

  async setConsumers() {}
}
