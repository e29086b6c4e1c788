import type { Knex } from 'knex'
import { afterAll, beforeAll } from 'vitest'
import type { SagaDefinition, SagaStep } from '../../../src/core/saga.js'
import { KnexOrderBook, KnexSagaStore } from '../../../src/knex/index.js'
import {
  CompensationSaga,
  type CompensationSagaOptions,
} from '../../../src/saga/compensation-saga.js'
import { type DatabaseKind, type FreshDatabase, freshDatabase } from '../../harness/databases.js'

export const AUDIT = { actor: 'op', reason: 'a test' } as const

export interface Data {
  readonly amount: number
  readonly seen?: readonly string[]
}
export type Step = SagaStep<Data>
export type Alert = { readonly code: string; readonly [key: string]: unknown }

/** A runner of a kind of its own, so that tests share a database and no sagas. */
export interface Runner {
  readonly kind: string
  readonly saga: CompensationSaga<Data, Knex.Transaction>
  readonly alerts: Alert[]
  /** A saga begun and committed; its id. */
  begin(data?: Data): Promise<string>
  /** As if every pause and every lease were over, then a round. */
  again(): Promise<void>
}

export interface SagaKit {
  readonly kind: DatabaseKind
  readonly db: FreshDatabase
  readonly knex: Knex
  readonly store: KnexSagaStore
  runner(
    steps: readonly Step[],
    o?: Partial<CompensationSagaOptions<Data, Knex.Transaction>> & { readonly kind?: string },
  ): Runner
  /** The database's clock as if set far ahead: what is paused or leased is due. */
  ripen(kind: string): Promise<void>
  row(sagaId: string): Promise<Record<string, unknown>>
  tasks(sagaId: string): Promise<readonly Record<string, unknown>[]>
}

let kinds = 0
let ids = 0
export const newId = () => `saga-${++ids}`

export function makeKit(db: FreshDatabase): SagaKit {
  const { kind, knex } = db
  const store = new KnexSagaStore({ knex })
  const ripen = async (of: string) => {
    await knex('seckill_saga').where({ kind: of, state: 'active' }).update({ next_time: 0 })
  }
  return {
    kind,
    db,
    knex,
    store,
    ripen,
    row: (sagaId) => knex('seckill_saga').where({ saga_id: sagaId }).first(),
    tasks: (sagaId) => knex('seckill_manual_task').where({ kind: 'saga-parked', ref: sagaId }),
    runner(steps, o = {}) {
      const definition: SagaDefinition<Data> = { kind: o.kind ?? `kind-${++kinds}`, steps }
      const alerts: Alert[] = []
      const events = {
        onAlert: (code: string, detail: object) => void alerts.push({ code, ...detail }),
      }
      const saga = new CompensationSaga({ store, definition, events, everyMs: 10, ...o })
      const begin = async (data: Data = { amount: 1 }) => {
        const id = newId()
        await knex.transaction((trx) => saga.begin(trx, { id, data }))
        return id
      }
      const again = async () => {
        await ripen(definition.kind)
        await saga.run()
      }
      return { kind: definition.kind, saga, alerts, begin, again }
    },
  }
}

/** One database for a describe block, migrated. */
export function useSagas(
  kind: DatabaseKind,
  fresh: () => Promise<FreshDatabase> = () => freshDatabase(kind),
): SagaKit {
  let kit: SagaKit | undefined
  const there = () => {
    if (!kit) throw new Error('the kit is there once the tests run')
    return kit
  }
  beforeAll(async () => {
    const db = await fresh()
    await KnexOrderBook.migrate(db.knex)
    kit = makeKit(db)
  })
  afterAll(() => kit?.db.destroy())
  return {
    kind,
    get db() {
      return there().db
    },
    get knex() {
      return there().knex
    },
    get store() {
      return there().store
    },
    runner: (steps, o) => there().runner(steps, o),
    ripen: (of) => there().ripen(of),
    row: (sagaId) => there().row(sagaId),
    tasks: (sagaId) => there().tasks(sagaId),
  }
}

/** What happened, in order; and a step that says so. */
export function diary() {
  const lines: string[] = []
  const step = (name: string, o: Partial<Step> = {}): Step => ({
    name,
    do: async () => void lines.push(`do ${name}`),
    undo: async () => void lines.push(`undo ${name}`),
    ...o,
  })
  return { lines, step }
}

/** A promise and the means to keep it. */
export function gate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open: () => open(), opened }
}

export const refused = (reason: string) => async () => ({ status: 'failed', reason }) as const
export const broken =
  (message = 'no answer') =>
  async (): Promise<never> => {
    throw new Error(message)
  }
