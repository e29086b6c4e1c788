import type { SagaDefinition } from '../core/saga.js'
import { type Check, type ConformanceCase, casesOf } from './conformance.js'
import { SagaBench } from './saga/bench.js'
import { carrying } from './saga/carrying.js'
import { undoing } from './saga/undoing.js'

/** A saga as one of its steps knows it. */
export interface SagaUnderTest<D extends object> {
  /** The idempotency key of that step. */
  readonly key: string
  /** As `begin` was told, with what the steps before returned. */
  readonly data: D
}

/** A host's saga over what his steps really reach, or a stub of it. */
export interface SagaStepsUnderTest<D extends object> {
  readonly definition: SagaDefinition<D>
  /** What `begin` is told of a saga that comes to its end; of another one each time. */
  data(): D
  /** How often the effect of a step stands for that saga, wherever it has it. */
  standing(step: string, saga: SagaUnderTest<D>): Promise<number>
  /** Feature `refuses`: a step, and data with which it says `failed` after those before it are done. */
  readonly refused?: { readonly step: string; data(): D }
  close(): Promise<void>
}

/** `refuses`: a step may be definitely refused. */
export type SagaStepsFeature = 'refuses'

export type SagaStepsCheck = Check<SagaBench, SagaStepsFeature>

const CHECKS: readonly SagaStepsCheck[] = [...carrying, ...undoing]

/**
 * Runs each step of a host's saga as the library does: once, again after an answer that was lost, beside a holder who came
 * too late, there and back.
 *
 * @param features cases that need another are left out
 */
export function sagaStepsSuite<D extends object>(
  features: readonly SagaStepsFeature[],
): readonly ConformanceCase<SagaStepsUnderTest<D>>[] {
  return casesOf(
    'sagaStepsSuite',
    CHECKS,
    features,
    // The bench only passes data on, so it need not know what is in it.
    (under: SagaStepsUnderTest<D>) => new SagaBench(under as unknown as SagaStepsUnderTest<object>),
  )
}
