import { equal, fail, ok } from 'node:assert/strict'
import type { SagaStepsCheck } from '../saga-steps-suite.js'

export const carrying: readonly SagaStepsCheck[] = [
  {
    name: 'P3: every step takes effect once, and returns data that JSON brings back',
    async check(bench) {
      const saga = bench.begin()
      for (const step of bench.definition.steps) {
        await saga.stands(step, 0, 'nothing')
        equal(await saga.do(step), null, `${step.name} refused`)
      }
      for (const step of bench.definition.steps) await saga.stands(step, 1, 'the whole saga')
    },
  },
  {
    name: 'P3: a step whose answer was lost is carried on, with its data, and stands once',
    async check(bench) {
      await bench.each(async (saga, step) => {
        await saga.doUnheard(step)
        equal(await saga.doAgain(step), null, `${step.name} refused when tried again`)
        await saga.stands(step, 1, 'an answer that was lost')
        const { steps } = bench.definition
        for (const next of steps.slice(steps.indexOf(step) + 1))
          equal(await saga.do(next), null, `${next.name} refused after a lost answer before it`)
      })
    },
  },
  {
    name: 'P3: a step that was cut off at once is over soon, and made whole by the next try',
    async check(bench) {
      await bench.each(async (saga, step) => {
        const signal = AbortSignal.abort()
        await saga.doUnheard(step, { signal }).catch(notAMistake)
        equal(await saga.doAgain(step), null, `${step.name} refused when tried again`)
        await saga.stands(step, 1, 'a try that was cut off')
      })
    },
  },
  {
    name: 'P3: a step without probe, tried by two holders at once, stands once',
    async check(bench) {
      await bench.each(
        async (saga, step) => {
          const tries = [saga.do(step), saga.do(step, { attempt: 2, fence: 2 })]
          await Promise.all(tries.map((t) => t.catch(notAMistake)))
          equal(await saga.doAgain(step), null, `${step.name} refused when tried again`)
          await saga.stands(step, 1, 'two tries at once')
        },
        (step) => step.probe === undefined,
      )
    },
  },
  {
    name: 'P3: a probe finds nothing before the step, the step after it, and changes neither',
    async check(bench) {
      await bench.each(
        async (saga, step) => {
          equal(await saga.probe(step), 'not-done', `probe of ${step.name} before it was tried`)
          await saga.stands(step, 0, 'a probe')
          await saga.do(step)
          for (const _ of [1, 2])
            equal(await saga.probe(step), 'done', `probe of ${step.name} once it is done`)
          await saga.stands(step, 1, 'being done, and probes')
        },
        (step) => step.probe !== undefined,
      )
    },
  },
  {
    name: 'P3: a step that is refused leaves nothing, in whatever try, and gives a reason',
    needs: ['refuses'],
    async check(bench) {
      const { refused } = bench.under
      const step = bench.definition.steps.find(({ name }) => name === refused?.step)
      if (!refused || !step) return fail('name a step in `refused`, or leave out the feature')
      const saga = await bench.before(step, refused.data())
      for (const attempt of [1, 2, 3]) {
        const said = await saga.do(step, { attempt, fence: attempt })
        if (!said) fail(`${step.name} was not refused`)
        ok(typeof said.reason === 'string' && said.reason !== '', `${step.name} gives no reason`)
        await saga.stands(step, 0, 'a refusal')
      }
      if (step.probe) equal(await saga.probe(step), 'not-done', `probe of ${step.name}`)
    },
  },
]

/** A step may throw, its outcome is unknown then; what the suite itself found wrong goes on. */
function notAMistake(error: unknown): void {
  if (error instanceof Error && error.name === 'AssertionError') throw error
}
