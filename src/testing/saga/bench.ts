import { deepEqual, equal, fail } from 'node:assert/strict'
import { within } from '../../core/background.js'
import { newOrderNo } from '../../core/order-no.js'
import type { SagaContext, SagaDefinition, SagaStep, StepRefused } from '../../core/saga.js'
import type { SagaStepsUnderTest, SagaUnderTest } from '../saga-steps-suite.js'

/** How long a step may take before it counts as one that never ends. */
const PATIENCE_MS = 10_000

type Step = SagaStep<object>
type Try = Partial<Pick<SagaContext, 'attempt' | 'fence' | 'signal'>>

/** One saga on its way through a host's steps, and how each stands. */
export class SagaOnBench {
  readonly #sagaId = `suite-${newOrderNo()}`

  constructor(
    private readonly under: SagaStepsUnderTest<object>,
    private data: object,
  ) {}

  /** Tries a step; its data counts as stored. */
  async do(step: Step, again: Try = {}): Promise<StepRefused | null> {
    const returned = await this.#patiently(step.name, 'do', () =>
      step.do(this.data, this.#context(step, again)),
    )
    if (returned?.status === 'failed') return returned
    if (returned !== undefined && returned.status !== 'done')
      fail(`do of ${step.name} returned ${JSON.stringify(returned)}`)
    this.#merge(step, returned?.data)
    return null
  }

  /** Tries a step whose answer, and with it its data, gets lost on the way. */
  async doUnheard(step: Step, again: Try = {}): Promise<void> {
    const before = this.data
    await this.do(step, again)
    this.data = before
  }

  /** The next try after an unknown outcome: asked first where the step can be asked. */
  async doAgain(step: Step): Promise<StepRefused | null> {
    if (!step.probe) return this.do(step, { attempt: 2, fence: 2 })
    const probed = await this.probe(step)
    if (probed === 'not-done') return this.do(step, { attempt: 2, fence: 2 })
    equal(probed, 'done', `probe of ${step.name}`)
    return null
  }

  async probe(step: Step): Promise<'done' | 'not-done' | 'unknown'> {
    const probed = await this.#patiently(step.name, 'probe', () =>
      step.probe?.(this.data, this.#context(step, { attempt: 2, fence: 2 })),
    )
    const status = probed?.status
    if (status !== 'done' && status !== 'not-done' && status !== 'unknown')
      return fail(`probe of ${step.name} returned ${JSON.stringify(probed)}`)
    if (probed?.status === 'done') this.#merge(step, probed.data)
    return status
  }

  async undo(step: Step): Promise<void> {
    const refused = await this.#patiently(step.name, 'undo', () =>
      step.undo?.(this.data, this.#context(step, { attempt: 2, fence: 2 })),
    )
    if (refused !== undefined) fail(`undo of ${step.name} refused: ${refused.reason}`)
  }

  async stands(step: Step, times: number, after: string): Promise<void> {
    const saga: SagaUnderTest<object> = { key: this.#context(step).key, data: this.data }
    const found = await this.under.standing(step.name, saga)
    equal(found, times, `how often ${step.name} stands after ${after}`)
  }

  #context(step: Step, { attempt = 1, fence = 1, signal }: Try = {}): SagaContext {
    const sagaId = this.#sagaId
    const never = new AbortController().signal
    return { sagaId, key: `${sagaId}:${step.name}`, fence, attempt, signal: signal ?? never }
  }

  /** As the store does it: through JSON, field by field. */
  #merge(step: Step, some: object = {}): void {
    const stored = JSON.parse(JSON.stringify(some))
    deepEqual(stored, some, `the data of ${step.name} is not what JSON brings back`)
    this.data = { ...this.data, ...stored }
  }

  async #patiently<T>(
    step: string,
    what: string,
    run: () => Promise<T> | undefined,
  ): Promise<T | undefined> {
    const running = (async () => run())()
    return within(running, PATIENCE_MS, () =>
      fail(`${what} of ${step} was not over within ${PATIENCE_MS} ms`),
    )
  }
}

/** A host's saga on the bench. */
export class SagaBench {
  readonly definition: SagaDefinition<object>

  constructor(readonly under: SagaStepsUnderTest<object>) {
    this.definition = under.definition
  }

  begin(data: object = this.under.data()): SagaOnBench {
    return new SagaOnBench(this.under, data)
  }

  /** For each step: a saga that has come so far. */
  async each(
    work: (saga: SagaOnBench, step: Step) => Promise<void>,
    which: (step: Step) => boolean = () => true,
  ): Promise<void> {
    for (const step of this.definition.steps)
      if (which(step)) await work(await this.before(step), step)
  }

  /** A saga whose steps before this one are done. */
  async before(step: Step, data?: object): Promise<SagaOnBench> {
    const saga = this.begin(data)
    for (const done of this.definition.steps.slice(0, this.definition.steps.indexOf(step))) {
      const refused = await saga.do(done)
      if (refused) fail(`${done.name} refused what comes to its end: ${refused.reason}`)
    }
    return saga
  }

  async close(): Promise<void> {
    await this.under.close()
  }
}
