import type { Audit } from './types.js'

/** What a step is told besides the data. */
export interface SagaContext {
  readonly sagaId: string
  /**
   * `<saga id>:<step name>`, at most 97 characters: the same in each try of `do`, `probe` and `undo`, also after a crash.
   * Hand it to whatever takes an idempotency key; put a word in front where `undo` needs a key of its own.
   */
  readonly key: string
  /** Rises with each holder of the saga; for systems that can refuse a smaller one. */
  readonly fence: number
  /** Above 1, an earlier try may have had its effect. */
  readonly attempt: number
  /** Aborts when the lease is lost, the step takes too long, or a stop does not wait longer. */
  readonly signal: AbortSignal
}

/** The step had its effect; `data` is merged into the saga's, field by field. */
export interface StepDone<D extends object> {
  readonly status: 'done'
  readonly data?: Partial<D>
}

/** A definite no: nothing that this step did, in whatever try, is in effect. 1 to 200 characters are kept. */
export interface StepRefused {
  readonly status: 'failed'
  readonly reason: string
}

// biome-ignore lint/suspicious/noConfusingVoidType: a step without a result returns nothing
export type StepResult<D extends object> = void | StepDone<D> | StepRefused

/** Whether the effect of the step stands. */
export type Probed<D extends object> =
  | StepDone<D>
  | { readonly status: 'not-done' }
  | { readonly status: 'unknown' }

/**
 * One step. What it *returns* is definite; what it *throws* leaves the outcome unknown, and it is tried again.
 *
 * Without `probe` a step is simply repeated, so it must be idempotent by `key`; so must `undo` always. A saga that turns
 * back passes over steps without `undo`.
 */
export interface SagaStep<D extends object> {
  /** 1 to 32 of `a-z 0-9 -`, once in a saga. */
  readonly name: string
  do(data: D, context: SagaContext): Promise<StepResult<D>>
  /** Asked before a step of unknown outcome is repeated or undone: neither happens while it says `unknown` or throws. */
  probe?(data: D, context: SagaContext): Promise<Probed<D>>
  /** A refusal parks the saga at once. Without `probe` it may be called although nothing was done. */
  // biome-ignore lint/suspicious/noConfusingVoidType: nothing returned means undone
  undo?(data: D, context: SagaContext): Promise<void | StepRefused>
}

/** A kind of saga. Its steps are part of it: with other steps it is another kind (`transfer-2`). */
export interface SagaDefinition<D extends object> {
  /** 1 to 64 of `a-z 0-9 -`. */
  readonly kind: string
  /** 1 to 50, done in order, undone in reverse. */
  readonly steps: readonly SagaStep<D>[]
}

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
