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

  async read() {
    return { state: this.act?.state ?? ('stopped' as const), tokenEpoch: 1 }
  }

  async lastAct() {
    return this.act
  }

  async set(_: string, state: SaleState, { actor, reason }: Audit) {
    this.act = { state, actor, reason, revision: (this.act?.revision ?? 0) + 1 }
  }

  async setIf(id: string, to: SaleState, audit: Audit, revision: number) {
    if ((this.act?.revision ?? 0) !== revision) return false
    await this.set(id, to, audit)
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
