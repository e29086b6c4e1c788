import type { Knex } from 'knex'
import type { SagaContext, SagaDefinition } from '../../../src/core/saga.js'

export interface Trip {
  /** Whether the last step refuses. */
  readonly full: boolean
  readonly ticket?: string
}

/** Boundaries of steps, as a trip that works out, and one that does not, comes by them. */
const FORTH = ['do a', 'do b', 'do c'].flatMap((what) => [`${what}: before`, `${what}: after`])
const BACK = ['undo b', 'undo a'].flatMap((what) => [`${what}: before`, `${what}: after`])
export const POINTS = {
  done: FORTH,
  undone: [...FORTH, ...BACK],
} as const

/**
 * Effects beyond the saga's own row, one row each in the table `effects`: `a` and all undoing are idempotent by key, `b`
 * is not and has a probe instead.
 */
export function trip(
  knex: Knex,
  reached: (point: string, context: SagaContext) => Promise<void>,
): SagaDefinition<Trip> {
  const byKey = async (what: string, context: SagaContext) => {
    const { key } = context
    await reached(`${what}: before`, context)
    await knex.transaction(async (trx) => {
      const there = await trx('effects').where({ what, saga_key: key })
      if (there.length === 0) await trx('effects').insert({ what, saga_key: key })
    })
    await reached(`${what}: after`, context)
  }
  return {
    kind: 'trip',
    steps: [
      {
        name: 'a',
        do: (_, context) => byKey('do a', context),
        undo: (_, context) => byKey('undo a', context),
      },
      {
        name: 'b',
        do: async (_, context) => {
          const { key } = context
          await reached('do b: before', context)
          await knex('effects').insert({ what: 'do b', saga_key: key })
          await reached('do b: after', context)
          return { status: 'done', data: { ticket: `ticket of ${key}` } }
        },
        probe: async (_, { key }) => {
          const there = await knex('effects').where({ what: 'do b', saga_key: key })
          return there.length === 0
            ? { status: 'not-done' }
            : { status: 'done', data: { ticket: `ticket of ${key}` } }
        },
        undo: (_, context) => byKey('undo b', context),
      },
      {
        name: 'c',
        do: async ({ full }, context) => {
          if (!full) return byKey('do c', context)
          await reached('do c: before', context)
          await reached('do c: after', context)
          return { status: 'failed', reason: 'full' }
        },
      },
    ],
  }
}
