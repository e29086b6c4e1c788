import type { Audit } from './types.js'

/** Where a saga stands. */
export interface SagaPosition {
  /** `active`: to be carried on. `ended`: all done, or all undone. `parked`: waits for a person. */
  readonly state: 'active' | 'ended' | 'parked'
  /** `turn`: the step is to be undone if it was done, which nobody knows yet. */
  readonly direction: 'do' | 'turn' | 'undo'
  /** Index and name of the step it is at, or ended with. */
  readonly step: number
  readonly stepName: string
  /** JSON of at most 60,000 bytes. */
  readonly data: string
  /** How often this step was begun in this direction. */
  readonly tries: number
  /** Why it turned back. */
  readonly reason: string | null
  readonly lastError: string | null
}

/** A saga as it is stored. Instants are epoch ms by the database's clock. */
export interface SagaRow extends SagaPosition {
  readonly sagaId: string
  readonly kind: string
  /** Rises with each holder. */
  readonly fence: number
  /** When it may next be taken: the end of the lease while somebody has it, else of the pause. */
  readonly nextAt: number
  readonly createdAt: number
  readonly updatedAt: number
}

/** The right to carry a saga on, good as long as nobody else has taken it since. */
export type SagaHold = Pick<SagaRow, 'sagaId' | 'kind' | 'fence'>

/** Sagas in a database, where `Trx` is a transaction of the host. */
export interface SagaStore<Trx> {
  /**
   * Writes a new saga at its first step in the caller's transaction, which stays usable. `known`: this id stands for
   * the same fingerprint (of kind and data) already. `differs`: for another; nothing was written.
   */
  begin(
    trx: Trx,
    saga: Pick<SagaRow, 'sagaId' | 'kind' | 'stepName' | 'data'> & { readonly fingerprint: string },
  ): Promise<'begun' | 'known' | 'differs'>
  /** Leases what is due to the caller, with a higher fence and one more try each. */
  take(o: {
    readonly kind: string
    readonly limit: number
    readonly leaseMs: number
  }): Promise<readonly SagaRow[]>
  /** False when another has taken it since, as for {@link save}. */
  renew(hold: SagaHold, leaseMs: number): Promise<boolean>
  /** Writes where it stands and after how many ms it is due; a parked one leaves a manual task `saga-parked` with it. */
  save(hold: SagaHold, to: SagaPosition & { readonly waitMs: number }): Promise<boolean>
  find(sagaId: string): Promise<SagaRow | null>
  /** The longest parked first. */
  parked(o: { readonly kind: string; readonly limit: number }): Promise<readonly SagaRow[]>
  /** Makes a parked one due and resolves its task, with an audit row. False when it is not parked under that fence. */
  resume(hold: SagaHold, to: SagaPosition, audit: Audit): Promise<boolean>
  /** Active sagas of all kinds that nobody has taken for so long. */
  unattended(o: {
    readonly overdueMs: number
  }): Promise<readonly { readonly kind: string; readonly due: number }[]>
}
