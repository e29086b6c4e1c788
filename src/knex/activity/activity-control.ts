import * as check from '../../core/check.js'
import type { ActivityControl, ConsumerState, LastAct, SaleControl } from '../../core/ports.js'
import type { Audit, SaleState } from '../../core/types.js'
import { Database, type DatabaseOptions } from '../sql/database.js'
import { exact } from '../sql/dialect.js'
import type { Row, Statements } from '../sql/statements.js'
import type { Tx } from '../sql/tx.js'
import { Act } from './audit.js'

const UNTOUCHED: SaleControl = { state: 'stopped', tokenEpoch: 1, revision: 0 }
/** The row of all workers: no activity can be called that. `open` is running. */
const CONSUMERS = '*'
const RUNNING: SaleControl = { state: 'open', tokenEpoch: 1, revision: 0 }

/**
 * The durable row behind stop, open and token revocation. Throws what `KnexOrderBook` throws. An act is done once for
 * each call, also when the answer to its COMMIT is lost.
 */
export class KnexActivityControl implements ActivityControl {
  readonly #database: Database

  constructor(o: DatabaseOptions) {
    this.#database = new Database(o)
  }

  async read(activityId: string): Promise<SaleControl> {
    return this.#read(check.keyId(activityId, 'activityId'), UNTOUCHED)
  }

  async set(activityId: string, to: SaleState, audit: Audit): Promise<number> {
    const state = check.oneOf(to, 'state', ['open', 'stopped'])
    const change = (before: SaleControl) => ({ ...before, state })
    const act = state === 'open' ? 'open' : 'stop'
    const { revision } = (await this.#change(
      act,
      saleRow(activityId),
      audit,
      change,
    )) as SaleControl
    return revision
  }

  async setIf(
    activityId: string,
    to: SaleState,
    audit: Audit,
    revision: number,
  ): Promise<number | null> {
    const state = check.oneOf(to, 'state', ['open', 'stopped'])
    const seen = check.int(revision, 'revision', 0, Number.MAX_SAFE_INTEGER)
    const change = (before: SaleControl) => ({ ...before, state })
    const act = state === 'open' ? 'open' : 'stop'
    const done = await this.#change(act, saleRow(activityId), audit, change, seen)
    return done?.revision ?? null
  }

  async lastAct(activityId: string): Promise<LastAct | null> {
    const id = check.keyId(activityId, 'activityId')
    const [row] = await this.#database.read((on) => this.#rows(on, id, ''))
    if (!row) return null
    return {
      state: controlOf(row).state,
      actor: row.actor as string,
      reason: row.reason as string,
      revision: exact(row.version, 'version'),
    }
  }

  async revokeTokens(activityId: string, audit: Audit): Promise<number> {
    const after = await this.#change('revoke-tokens', saleRow(activityId), audit, (before) => ({
      ...before,
      tokenEpoch: before.tokenEpoch + 1,
    }))
    return (after as SaleControl).tokenEpoch
  }

  async readConsumers(): Promise<ConsumerState> {
    const { state } = await this.#read(CONSUMERS, RUNNING)
    return state === 'open' ? 'running' : 'frozen'
  }

  async setConsumers(to: ConsumerState, audit: Audit): Promise<void> {
    const frozen = check.oneOf(to, 'consumers', ['running', 'frozen']) === 'frozen'
    const state = frozen ? 'stopped' : 'open'
    const row = { id: CONSUMERS, untouched: RUNNING }
    const change = (before: SaleControl) => ({ ...before, state }) as const
    await this.#change(frozen ? 'freeze-consumers' : 'thaw-consumers', row, audit, change)
  }

  async #read(id: string, untouched: SaleControl): Promise<SaleControl> {
    const [row] = await this.#database.read((on) => this.#rows(on, id, ''))
    return row ? controlOf(row) : untouched
  }

  /** Null, with nothing written, when the row is not (any more) of the revision given. */
  async #change(
    name: string,
    { id, untouched }: { readonly id: string; readonly untouched: SaleControl },
    audit: Audit,
    change: (before: SaleControl) => SaleControl,
    revision?: number,
  ): Promise<SaleControl | null> {
    const who = check.audit(audit)
    const { tables } = this.#database
    const act = new Act(tables.audit, { act: name, activityId: id, audit: who })
    return this.#database.write(async (tx) => {
      const done = await act.done(tx)
      if (done) return done.after as unknown as SaleControl
      const [row] = await this.#rows(tx, id, tx.dialect.forUpdate)
      const last = exact(row?.version ?? 0, 'version')
      if (revision !== undefined && last !== revision) return null
      const before = row ? controlOf(row) : untouched
      const now = await tx.now()
      // Milliseconds, so that a database that was set back a while does not give a revision out twice.
      const after = { ...change(before), revision: Math.max(last + 1, now) }
      await this.#put(tx, id, row !== undefined, after, now, who)
      await act.record(tx, now, before, after)
      return after
    })
  }

  /** Two first acts at once meet in the primary key, and the later repeats on the other's row. */
  async #put(
    tx: Tx,
    id: string,
    exists: boolean,
    { state, tokenEpoch, revision }: SaleControl,
    now: number,
    { actor, reason }: Audit,
  ): Promise<void> {
    const table = this.#database.tables.activity
    const values = [state, tokenEpoch, revision, now, actor, reason, id]
    const affected = await tx.run(
      exists
        ? `UPDATE ${table} SET state = ?, token_epoch = ?, version = ?, changed_at = ?, actor = ?, reason = ? WHERE activity_id = ?`
        : `INSERT INTO ${table} (state, token_epoch, version, changed_at, actor, reason, activity_id) VALUES (?, ?, ?, ?, ?, ?, ?)`,
      values,
    )
    if (affected !== 1) tx.conflict('the row is gone')
  }

  #rows(on: Statements, id: string, lock: string): Promise<readonly Row[]> {
    return on.all(
      `SELECT state, token_epoch, version, actor, reason FROM ${this.#database.tables.activity} WHERE activity_id = ?${lock}`,
      [id],
    )
  }
}

function saleRow(activityId: string) {
  return { id: check.keyId(activityId, 'activityId'), untouched: UNTOUCHED }
}

function controlOf(row: Row): SaleControl {
  return {
    state: row.state === 'open' ? 'open' : 'stopped',
    tokenEpoch: exact(row.token_epoch, 'token_epoch'),
    revision: exact(row.version, 'version'),
  }
}
