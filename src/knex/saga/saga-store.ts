import type { Knex } from 'knex'
import type { SagaHold, SagaPosition, SagaRow, SagaStore } from '../../core/saga.js'
import type { Audit } from '../../core/types.js'
import { Act } from '../activity/audit.js'
import { Database, type DatabaseOptions } from '../sql/database.js'
import { exact } from '../sql/dialect.js'
import type { Tx } from '../sql/tx.js'
import { begin } from './begin.js'
import { SAGA_SELECT, sagaRow } from './rows.js'
import { openTask, resolveTask, summaryOf } from './task.js'

/**
 * {@link SagaStore} on MySQL 8+, MariaDB 10.6+, PostgreSQL or SQLite; the table is one of `KnexOrderBook.migrate`.
 * Throws what `KnexOrderBook` throws. Each write names the fence it was allowed by.
 */
export class KnexSagaStore implements SagaStore<Knex.Transaction> {
  readonly #database: Database

  constructor(o: DatabaseOptions) {
    this.#database = new Database(o)
  }

  async begin(
    trx: Knex.Transaction,
    saga: Parameters<SagaStore<Knex.Transaction>['begin']>[1],
  ): Promise<'begun' | 'known' | 'differs'> {
    return begin(this.#database, trx, saga)
  }

  /** What a lost answer to COMMIT took is due again after its lease, with one try less. */
  take(o: {
    readonly kind: string
    readonly limit: number
    readonly leaseMs: number
  }): Promise<readonly SagaRow[]> {
    const { saga } = this.#database.tables
    return this.#database.write(async (tx) => {
      const now = await tx.now()
      const due = await tx.all(
        `SELECT saga_id FROM ${saga} WHERE state = 'active' AND kind = ? AND next_time <= ? ORDER BY next_time LIMIT ${o.limit}${tx.dialect.skipLocked}`,
        [o.kind, now],
      )
      const ids = due.map((row) => row.saga_id as string).sort()
      await tx.runIn(
        `UPDATE ${saga} SET fence = fence + 1, tries = tries + 1, next_time = ? WHERE saga_id IN (??)`,
        [now + o.leaseMs],
        ids,
      )
      return (await tx.allIn(`SELECT ${SAGA_SELECT} FROM ${saga} WHERE saga_id IN (??)`, ids)).map(
        sagaRow,
      )
    })
  }

  renew(hold: SagaHold, leaseMs: number): Promise<boolean> {
    return this.#database.write(async (tx) => {
      const affected = await tx.run(
        `UPDATE ${this.#database.tables.saga} SET next_time = ${tx.dialect.now} + ? WHERE saga_id = ? AND fence = ?`,
        [leaseMs, hold.sagaId, hold.fence],
      )
      return affected === 1 || (await this.#holds(tx, hold))
    })
  }

  save(hold: SagaHold, to: SagaPosition & { readonly waitMs: number }): Promise<boolean> {
    return this.#database.write(async (tx) => {
      const saved = await this.#move(tx, hold, to, { waitMs: to.waitMs, fence: hold.fence })
      if (saved && to.state === 'parked') await openTask(tx, this.#database.tables, hold, to)
      return saved
    })
  }

  async find(sagaId: string): Promise<SagaRow | null> {
    const [row] = await this.#rows('saga_id = ?', [sagaId])
    return row ?? null
  }

  parked(o: { readonly kind: string; readonly limit: number }): Promise<readonly SagaRow[]> {
    return this.#rows(
      `state = 'parked' AND kind = ? ORDER BY next_time, saga_id LIMIT ${o.limit}`,
      [o.kind],
    )
  }

  resume(hold: SagaHold, to: SagaPosition, audit: Audit): Promise<boolean> {
    const { tables } = this.#database
    const act = new Act(tables.audit, { act: 'resume-saga', activityId: null, audit })
    return this.#database.write(async (tx) => {
      if (await act.done(tx)) return true
      const [row] = await tx.all(
        `SELECT ${SAGA_SELECT} FROM ${tables.saga} WHERE saga_id = ? AND fence = ? AND state = 'parked'${tx.dialect.forUpdate}`,
        [hold.sagaId, hold.fence],
      )
      if (!row) return false
      // A higher fence, so that whoever parked it and has not heard so cannot park it again.
      await this.#move(tx, hold, to, { waitMs: 0, fence: hold.fence + 1 })
      await resolveTask(tx, tables, hold, audit)
      await act.record(tx, await tx.now(), summaryOf(hold, sagaRow(row)), summaryOf(hold, to))
      return true
    })
  }

  async unattended(o: {
    readonly overdueMs: number
  }): Promise<readonly { readonly kind: string; readonly due: number }[]> {
    const rows = await this.#database.read((on) =>
      on.all(
        `SELECT kind, COUNT(*) AS due FROM ${this.#database.tables.saga} WHERE state = 'active' AND next_time <= ${on.dialect.now} - ? GROUP BY kind ORDER BY kind`,
        [o.overdueMs],
      ),
    )
    return rows.map((row) => ({ kind: row.kind as string, due: exact(row.due, 'due') }))
  }

  /** False when the fence has risen. */
  async #move(
    tx: Tx,
    hold: SagaHold,
    to: SagaPosition,
    o: { readonly waitMs: number; readonly fence: number },
  ): Promise<boolean> {
    const { now } = tx.dialect
    const affected = await tx.run(
      `UPDATE ${this.#database.tables.saga} SET state = ?, direction = ?, step = ?, step_name = ?, data = ?, tries = ?, reason = ?, last_error = ?, fence = ?, next_time = ${now} + ?, updated_at = ${now} WHERE saga_id = ? AND fence = ?`,
      [
        to.state,
        to.direction,
        to.step,
        to.stepName,
        to.data,
        to.tries,
        to.reason,
        to.lastError,
        o.fence,
        o.waitMs,
        hold.sagaId,
        hold.fence,
      ],
    )
    return affected === 1 || (await this.#holds(tx, hold))
  }

  /** Some drivers do not count a row that a repeat left as it was. */
  async #holds(tx: Tx, { sagaId, fence }: SagaHold): Promise<boolean> {
    const { saga } = this.#database.tables
    const rows = await tx.all(`SELECT saga_id FROM ${saga} WHERE saga_id = ? AND fence = ?`, [
      sagaId,
      fence,
    ])
    return rows.length > 0
  }

  #rows(where: string, bindings: readonly unknown[]): Promise<readonly SagaRow[]> {
    const sql = `SELECT ${SAGA_SELECT} FROM ${this.#database.tables.saga} WHERE ${where}`
    return this.#database.read(async (on) => (await on.all(sql, bindings)).map(sagaRow))
  }
}
