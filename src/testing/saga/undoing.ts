import type { SagaStepsCheck } from '../saga-steps-suite.js'

export const undoing: readonly SagaStepsCheck[] = [
  {
    name: 'P3: undo takes back what was done, and again changes nothing',
    async check(bench) {
      await bench.each(
        async (saga, step) => {
          await saga.do(step)
          await saga.undo(step)
          await saga.stands(step, 0, 'undo')
          await saga.undo(step)
          await saga.stands(step, 0, 'undo, twice')
        },
        (step) => step.undo !== undefined,
      )
    },
  },
  {
    name: 'P3: undo by two holders at once takes it back once',
    async check(bench) {
      await bench.each(
        async (saga, step) => {
          await saga.do(step)
          const tries = await Promise.allSettled([saga.undo(step), saga.undo(step)])
          if (tries.some((t) => t.status === 'rejected')) await saga.undo(step)
          await saga.stands(step, 0, 'two undos at once')
        },
        (step) => step.undo !== undefined,
      )
    },
  },
  {
    name: 'P3: undo without probe does no harm where nothing was done',
    async check(bench) {
      await bench.each(
        async (saga, step) => {
          await saga.undo(step)
          await saga.stands(step, 0, 'an undo of nothing')
        },
        (step) => step.undo !== undefined && step.probe === undefined,
      )
    },
  },
  {
    name: 'P3: undo leaves another saga alone',
    async check(bench) {
      await bench.each(
        async (saga, step) => {
          const other = await bench.before(step)
          await Promise.all([saga.do(step), other.do(step)])
          await saga.undo(step)
          await other.stands(step, 1, 'the undo of another saga')
        },
        (step) => step.undo !== undefined,
      )
    },
  },
  {
    name: 'P3: a saga that turns back at any step leaves nothing that can be undone',
    async check(bench) {
      const { steps } = bench.definition
      for (const last of steps) {
        const done = steps.slice(0, steps.indexOf(last) + 1)
        const saga = await bench.before(last)
        await saga.do(last)
        for (const step of [...done].reverse()) await saga.undo(step)
        for (const step of done) if (step.undo) await saga.stands(step, 0, 'the way back')
      }
    },
  },
]
