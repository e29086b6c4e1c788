import { describe } from '../core/describe.js'
import type { SagaContext, SagaDefinition, SagaPosition, SagaRow, SagaStore } from '../core/saga.js'
import { BACKOFF_MS } from '../core/tries.js'
import { attempt, type Outcome } from './attempt.js'
import { backward, onward, type Place } from './course.js'
import { decode, encode } from './data.js'
import { holding } from './holding.js'

interface CarrierOptions<D extends object> {
  readonly definition: SagaDefinition<D>
  readonly store: Pick<SagaStore<never>, 'save' | 'renew'>
  readonly leaseMs: number
  readonly stepTimeoutMs: number
  readonly maxTries: number
  readonly alert: (code: string, detail: { readonly [key: string]: unknown }) => void
  /** A stop waits no longer. */
  readonly cut: AbortSignal
}

/** Where a saga goes next. `go-on`: its holder carries on at once; else it is due after so many ms. */
interface Next {
  readonly to: SagaPosition
  readonly after: 'go-on' | number
}

/** Carries one saga on, step after step, as long as it is held. Each step's outcome is stored before the next begins. */
export class Carrier<D extends object> {
  constructor(private readonly o: CarrierOptions<D>) {}

  /** Never rejects. An aborted `stopping` lets the step that runs end, and gives the saga back. */
  async carryOn(taken: SagaRow, stopping: AbortSignal): Promise<void> {
    const { sagaId, kind } = taken
    try {
      for (let at = taken; ; ) {
        const { to, after } = stopping.aborted ? notBegun(at) : await this.#next(at)
        const waitMs = after === 'go-on' ? this.o.leaseMs : after
        if (!(await this.o.store.save(at, { ...to, waitMs })))
          return this.o.alert('saga-lease-lost', { sagaId, kind, step: at.stepName })
        if (to.state === 'parked')
          this.o.alert('saga-parked', { sagaId, kind, step: to.stepName, error: to.lastError })
        if (after !== 'go-on' || to.state !== 'active') return
        at = { ...at, ...to }
      }
    } catch (error) {
      // Whoever takes it after the lease looks what this one has done.
      this.o.alert('saga-failed', { sagaId, kind, error })
    }
  }

  async #next(at: SagaRow): Promise<Next> {
    const { definition, maxTries } = this.o
    const step = definition.steps[at.step]
    if (step?.name !== at.stepName)
      return park(at, `this definition has no step ${at.stepName} there`)
    const data = decode(at.data)
    if (data === null) return park(at, 'the stored data cannot be read')
    // Not ended by an error, or it would have been parked then: each of its processes died or lost the lease.
    if (at.tries > maxTries) return park(at, `begun ${maxTries} times without an end`)
    const outcome = await holding(
      {
        store: this.o.store,
        hold: at,
        leaseMs: this.o.leaseMs,
        limitMs: this.o.stepTimeoutMs,
        cut: this.o.cut,
      },
      (signal) => attempt<D>(at.direction, step, data as D, contextOf(at, signal)),
      (): Outcome => ({ kind: 'again', error: `no end within ${this.o.stepTimeoutMs} ms` }),
    )
    return this.#after(at, outcome)
  }

  #after(at: SagaRow, outcome: Outcome): Next {
    const { steps } = this.o.definition
    switch (outcome.kind) {
      case 'again':
        return this.#later(at, outcome.error)
      case 'refused':
        // Who cannot undo what was done needs a person, not time.
        if (at.direction === 'undo') return park(at, outcome.reason)
        return goOn({ ...at, reason: outcome.reason }, backward(steps, at.step - 1))
      case 'absent':
        return goOn(at, backward(steps, at.step - 1))
      case 'stands':
      case 'done': {
        let merged: string
        try {
          // From the text again: a step may have written into the object it was given.
          merged = encode({ ...decode(at.data), ...outcome.data }, 'the data with the result')
        } catch (error) {
          return this.#later(at, describe(error))
        }
        const from = { ...at, data: merged }
        if (outcome.kind === 'stands') return goOn(from, backward(steps, at.step))
        if (at.direction === 'do') return goOn(from, onward(steps, at.step))
        return goOn(from, backward(steps, at.step - 1))
      }
      default:
        return outcome satisfies never
    }
  }

  #later(at: SagaRow, error: string): Next {
    if (at.tries >= this.o.maxTries) return park(at, error)
    const pauseMs = BACKOFF_MS[Math.min(at.tries, BACKOFF_MS.length) - 1] ?? 0
    return { to: { ...at, lastError: error }, after: pauseMs }
  }
}

function contextOf(at: SagaRow, signal: AbortSignal): SagaContext {
  const { sagaId, fence, tries } = at
  return { sagaId, key: `${sagaId}:${at.stepName}`, fence, attempt: tries, signal }
}

/** At another step, whose first try begins with the write that says so. */
function goOn(at: SagaPosition, place: Place): Next {
  return { to: { ...at, ...place, tries: 1, lastError: null }, after: 'go-on' }
}

function park(at: SagaPosition, error: string): Next {
  return { to: { ...at, state: 'parked', lastError: error }, after: 0 }
}

/** Given back as it was before it was taken, or before this step. */
function notBegun(at: SagaPosition): Next {
  return { to: { ...at, tries: at.tries - 1 }, after: 0 }
}
