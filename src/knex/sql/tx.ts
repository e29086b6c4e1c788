import type { Knex } from 'knex'
import { within } from '../../core/background.js'
import { clientOf, cut } from './driver.js'
import { Conflict, HookFailed, StatementFailed } from './failures.js'
import { failedOn, type Line, Statements } from './statements.js'

/** One transaction's statements, and the host's part in it. */
export class Tx extends Statements {
  #hookRan = false

  constructor(
    line: Omit<Line, 'client'>,
    private readonly trx: Knex.Transaction,
    private readonly o: {
      readonly hookMs: number
      /** The unit is repeated because somebody else was faster: now it pays to lock before looking. */
      readonly afterConflict: boolean
    },
  ) {
    super({ ...line, client: clientOf(trx) })
  }

  get afterConflict(): boolean {
    return this.o.afterConflict
  }

  get hookRan(): boolean {
    return this.#hookRan
  }

  /** Hands the transaction to the host's code, which may neither end it nor keep it for ever. */
  async hook<T>(work: (trx: Knex.Transaction) => T | Promise<T>): Promise<T> {
    const { trx } = this
    const { connection } = this.line
    const { commit, rollback } = trx
    const forbidden = () => {
      throw new Error('a hook must not end the transaction: throw, or return a veto')
    }
    this.#hookRan = true
    trx.commit = forbidden
    trx.rollback = forbidden
    try {
      const running = (async () => work(trx))()
      return await within(running, this.o.hookMs, () => {
        const late = new Error(`the hook took longer than ${this.o.hookMs} ms`)
        cut(connection, late)
        throw new StatementFailed('retry', late)
      })
    } catch (error) {
      if (error instanceof StatementFailed) throw error
      const failure = failedOn(connection, error)
      // A unique key of the host's own is his business; only a unit that was interrupted is simply repeated.
      if (failure.trouble === 'other' || failure.trouble === 'duplicate')
        throw new HookFailed(error)
      throw failure
    } finally {
      trx.commit = commit
      trx.rollback = rollback
    }
  }

  /** For a write that must hit and found nothing: the unit is rolled back and repeated. */
  conflict(what: string): never {
    throw new Conflict(what)
  }

  protected override failed(error: unknown): Error {
    const failure = super.failed(error)
    // The hook caught an error that had already ended the transaction; PostgreSQL refuses all that follows.
    if (this.#hookRan && failure instanceof StatementFailed && failure.trouble === 'other')
      return new HookFailed(failure.cause)
    return failure
  }
}
