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

  get isOpen(): boolean {
    return this.act?.state === 'open'
  }

  async read() {
    const { state = 'stopped' as const, revision = 0 } = this.act ?? {}
    return { state, tokenEpoch: 1, revision }
  }

  async lastAct() {
    return this.act
  }

  async set(_: string, state: SaleState, audit: Audit) {
    if (state === 'stopped' && this.stopsAreLost) return this.act?.revision ?? 0
    return this.put(state, audit)
  }

  private put(state: SaleState, { actor, reason }: Audit): number {
    if (state === 'open') this.opened++
    const revision = (this.act?.revision ?? 0) + 1
    this.act = { state, actor, reason, revision }
    return revision
  }

  async setIf(_: string, to: SaleState, audit: Audit, revision: number) {
    if ((this.act?.revision ?? 0) !== revision) return null
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
