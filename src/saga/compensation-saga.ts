import { setMaxListeners } from 'node:events'
import { every, pause } from '../core/background.js'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { Background, FlashSaleEvents } from '../core/ports.js'
import { quiet } from '../core/quiet.js'
import type { SagaDefinition, SagaPosition, SagaRow, SagaStore } from '../core/saga.js'
import type { Audit } from '../core/types.js'
import { Carrier } from './carrier.js'
import { backward, onward } from './course.js'
import { encode, fingerprintOf } from './data.js'
import { checkDefinition } from './definition.js'
import { type Saga, viewOf } from './view.js'

export interface CompensationSagaOptions<D extends object, Trx> {
  readonly store: SagaStore<Trx>
  readonly definition: SagaDefinition<D>
  /** Alerts: `saga-parked`, `saga-lease-lost`, `saga-unattended`, `saga-failed`. */
  readonly events?: Pick<FlashSaleEvents, 'onAlert'>
  /** How often it looks for sagas that are due, in ms. @defaultValue 1,000 */
  readonly everyMs?: number
  /** How many sagas this process carries on at once. @defaultValue 8 */
  readonly concurrency?: number
  /** How long a saga is its holder's without a renewal, in ms; renewed at a third of it. @defaultValue 15,000 (D4) */
  readonly leaseMs?: number
  /** How long one try of a step may take, in ms; then its outcome is unknown. @defaultValue 60,000 */
  readonly stepTimeoutMs?: number
  /**
   * How often a step is begun before the saga is parked, 2 to 1,000; with pauses of 1 s, 5 s, 30 s, 2 min, then 10 min.
   * @defaultValue 10 (D4)
   */
  readonly maxTries?: number
}

/**
 * How a person has a parked saga go on. `again`: the same step once more. `settled`: he has done, or undone, the step
 * himself; on with the next. `undo`: back, with the step it stands at if a probe finds it done.
 */
export type ResumeHow = 'again' | 'settled' | 'undo'

const UNATTENDED_MS = 60_000
const NEVER = new AbortController().signal

/**
 * Steps with compensations that survive crashes: each outcome is stored before the next step begins, a step whose
 * outcome is unknown is probed before it is repeated or undone, and what cannot be brought to an end is parked for a
 * person. Any number of processes may run one; a saga has one holder at a time, and a late one changes nothing.
 */
export class CompensationSaga<D extends object, Trx> implements Background {
  readonly #store: SagaStore<Trx>
  readonly #definition: SagaDefinition<D>
  readonly #carrier: Carrier<D>
  readonly #loop: Background
  readonly #cut = new AbortController()
  readonly #alert: NonNullable<FlashSaleEvents['onAlert']>
  readonly #everyMs: number
  readonly #concurrency: number
  readonly #leaseMs: number
  #lookedAt = Number.NEGATIVE_INFINITY

  /** @throws FlashSaleError `BAD_OPTION` */
  constructor(o: CompensationSagaOptions<D, Trx>) {
    if (typeof o !== 'object' || o === null) check.fail('BAD_OPTION', 'options', 'an object', o)
    if (typeof o.store?.take !== 'function')
      check.fail('BAD_OPTION', 'option store', 'a SagaStore', o.store)
    this.#store = o.store
    this.#definition = checkDefinition(o.definition)
    this.#alert = quiet('events.onAlert', o.events?.onAlert, o.events)
    this.#everyMs = check.option(o.everyMs, 'everyMs', 1_000, 10, 60_000)
    this.#concurrency = check.option(o.concurrency, 'concurrency', 8, 1, 1_000)
    this.#leaseMs = check.option(o.leaseMs, 'leaseMs', 15_000, 100, 3_600_000)
    setMaxListeners(0, this.#cut.signal) // each step that runs hears of it
    this.#carrier = new Carrier({
      definition: this.#definition,
      store: o.store,
      leaseMs: this.#leaseMs,
      stepTimeoutMs: check.option(o.stepTimeoutMs, 'stepTimeoutMs', 60_000, 1, 3_600_000),
      maxTries: check.option(o.maxTries, 'maxTries', 10, 2, 1_000),
      alert: this.#alert,
      cut: this.#cut.signal,
    })
    this.#loop = every({
      everyMs: this.#everyMs,
      work: (signal) => this.run(signal),
      onError: (error) => this.#alert('saga-failed', { kind: this.#definition.kind, error }),
    })
  }

  /**
   * Begins a saga in the caller's transaction: it runs if that commits, and there is nothing of it if not. False when
   * it was begun before with equal data. While another transaction begins the same id, the call waits for its end.
   *
   * @param saga `id` 1 to 64 characters, unique over all kinds; `data` a JSON object of at most 60,000 bytes
   * @throws FlashSaleError `BAD_INPUT`, with nothing written: also when the id stands for another kind or other data ·
   * `DB_BUSY` or `DB_UNAVAILABLE`: the transaction is lost, repeat it as a whole
   */
  async begin(trx: Trx, saga: { readonly id: string; readonly data: D }): Promise<boolean> {
    check.object(saga, 'saga')
    const sagaId = check.id(saga.id, 'id')
    const data = encode(saga.data, 'data')
    const { kind, steps } = this.#definition
    const stepName = steps[0]?.name as string
    const fingerprint = fingerprintOf(kind, data)
    const begun = await this.#store.begin(trx, { sagaId, kind, stepName, data, fingerprint })
    if (begun === 'differs')
      check.fail('BAD_INPUT', 'id', 'of no other saga, kind or data', saga.id)
    return begun === 'begun'
  }

  /** Null when there is none of this kind. */
  async find(id: string): Promise<Saga<D> | null> {
    const row = await this.#find(check.id(id, 'id'))
    return row && viewOf(row)
  }

  /** What waits for a person, the longest first; `limit` 1 to 1,000. */
  async parked(o: { readonly limit: number }): Promise<readonly Saga<D>[]> {
    check.object(o, 'options')
    const limit = check.int(o.limit, 'limit', 1, 1_000)
    const rows = await this.#store.parked({ kind: this.#definition.kind, limit })
    return rows.map((row) => viewOf<D>(row))
  }

  /** Lets a parked saga go on, and resolves its manual task, in one transaction with an audit row. False when it is not parked. */
  async resume(id: string, audit: Audit, how: ResumeHow = 'again'): Promise<boolean> {
    const sagaId = check.id(id, 'id')
    const who = check.audit(audit)
    check.oneOf(how, 'how', ['again', 'settled', 'undo'])
    const row = await this.#find(sagaId)
    if (row?.state !== 'parked') return false
    return this.#store.resume(row, this.#resumed(row, how), who)
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  /** Takes no further saga and waits for the steps that run, `drainMs` (5,000) at most; then their signals abort. */
  async stop(o?: { readonly drainMs?: number }): Promise<void> {
    await this.#loop.stop(o)
    this.#cut.abort(new FlashSaleError('STOPPED', 'the saga runner was stopped'))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  /** Carries on all that is due, until nothing is and nothing runs. Throws what the store throws when it cannot look. */
  async run(signal: AbortSignal = NEVER): Promise<void> {
    const { kind } = this.#definition
    const running = new Set<Promise<void>>()
    try {
      while (!signal.aborted) {
        await this.#lookAround()
        const free = this.#concurrency - running.size
        const rows = await this.#store.take({ kind, limit: free, leaseMs: this.#leaseMs })
        for (const row of rows) {
          const one = this.#carrier.carryOn(row, signal).finally(() => running.delete(one))
          running.add(one)
        }
        if (running.size === 0) break
        const nap = new AbortController()
        const full = running.size === this.#concurrency
        await Promise.race([...running, ...(full ? [] : [pause(this.#everyMs, nap.signal)])])
        nap.abort()
      }
    } finally {
      await Promise.all(running)
    }
  }

  async #find(sagaId: string): Promise<SagaRow | null> {
    const row = await this.#store.find(sagaId)
    return row?.kind === this.#definition.kind ? row : null
  }

  /** A step that was begun before is probed, hence one try at least. */
  #resumed(row: SagaRow, how: ResumeHow): SagaPosition {
    const { steps } = this.#definition
    const forward = row.direction === 'do'
    if (how === 'again' || (how === 'undo' && !forward))
      return { ...row, state: 'active', tries: 1 }
    if (steps[row.step]?.name !== row.stepName)
      throw new FlashSaleError('CORRUPT', `this definition has no step ${row.stepName} there`)
    if (how === 'undo') return { ...row, state: 'active', direction: 'turn', tries: 0 }
    const place = forward ? onward(steps, row.step) : backward(steps, row.step - 1)
    return { ...row, ...place, tries: 0, lastError: null }
  }

  /** Sagas of a kind that another version of the host has begun are not touched, but somebody should run them. */
  async #lookAround(): Promise<void> {
    const now = performance.now()
    if (now - this.#lookedAt < UNATTENDED_MS) return
    this.#lookedAt = now
    const kinds = await this.#store.unattended({ overdueMs: UNATTENDED_MS })
    for (const { kind, due } of kinds)
      if (kind !== this.#definition.kind) this.#alert('saga-unattended', { kind, due })
  }
}
