import * as check from '../core/check.js'
import type {
  ActivityControl,
  ActivityStore,
  ConsumerState,
  LastAct,
  SaleControl,
} from '../core/ports.js'
import type { Activity, Audit, SaleState } from '../core/types.js'

/** An {@link ActivityStore} in memory, for unit tests. */
export class MemoryActivityStore implements ActivityStore {
  readonly #activities = new Map<string, Activity>()

  constructor(activities: readonly Activity[] = []) {
    for (const activity of activities) this.save(activity)
  }

  /** Throws `BAD_INPUT` for what is no activity. */
  save(activity: Activity): void {
    const checked = check.activity(activity)
    this.#activities.set(checked.activityId, checked)
  }

  async load(activityId: string): Promise<Activity | null> {
    return this.#activities.get(activityId) ?? null
  }

  async live(): Promise<readonly string[]> {
    return [...this.#activities.keys()]
  }
}

/** An act as it is audited. */
export interface MemoryAct {
  readonly activityId: string | null
  readonly act: 'open' | 'stop' | 'revoke-tokens' | 'freeze-consumers' | 'thaw-consumers'
  readonly audit: Audit
}

/** An {@link ActivityControl} in memory, for unit tests, which keeps what was done. */
export class MemoryActivityControl implements ActivityControl {
  readonly acts: MemoryAct[] = []
  readonly #sales = new Map<string, SaleControl & Audit>()
  #consumers: ConsumerState = 'running'

  async read(activityId: string): Promise<SaleControl> {
    const { state, tokenEpoch, revision } = this.#sale(check.keyId(activityId, 'activityId'))
    return { state, tokenEpoch, revision }
  }

  async set(activityId: string, to: SaleState, audit: Audit): Promise<number> {
    const state = check.oneOf(to, 'state', ['open', 'stopped'])
    return this.#act(activityId, state === 'open' ? 'open' : 'stop', audit, { state }).revision
  }

  async setIf(
    activityId: string,
    to: SaleState,
    audit: Audit,
    revision: number,
  ): Promise<number | null> {
    const seen = this.#sale(check.keyId(activityId, 'activityId')).revision
    return seen === revision ? this.set(activityId, to, audit) : null
  }

  async lastAct(activityId: string): Promise<LastAct | null> {
    const { state, actor, reason, revision } = this.#sale(check.keyId(activityId, 'activityId'))
    return revision === 0 ? null : { state, actor, reason, revision }
  }

  async revokeTokens(activityId: string, audit: Audit): Promise<number> {
    const tokenEpoch = this.#sale(check.keyId(activityId, 'activityId')).tokenEpoch + 1
    return this.#act(activityId, 'revoke-tokens', audit, { tokenEpoch }).tokenEpoch
  }

  async readConsumers(): Promise<ConsumerState> {
    return this.#consumers
  }

  async setConsumers(to: ConsumerState, audit: Audit): Promise<void> {
    const state = check.oneOf(to, 'consumers', ['running', 'frozen'])
    const act = state === 'frozen' ? 'freeze-consumers' : 'thaw-consumers'
    this.acts.push({ activityId: null, act, audit: check.audit(audit) })
    this.#consumers = state
  }

  #sale(activityId: string): SaleControl & Audit {
    const untouched = {
      state: 'stopped',
      tokenEpoch: 1,
      revision: 0,
      actor: '',
      reason: '',
    } as const
    return this.#sales.get(activityId) ?? untouched
  }

  #act(
    activityId: string,
    act: MemoryAct['act'],
    audit: Audit,
    change: Partial<SaleControl>,
  ): SaleControl {
    const before = this.#sale(check.keyId(activityId, 'activityId'))
    const revision = Math.max(Date.now(), before.revision + 1)
    const after = { ...before, ...check.audit(audit), ...change, revision }
    this.acts.push({ activityId, act, audit })
    this.#sales.set(activityId, after)
    return after
  }
}
