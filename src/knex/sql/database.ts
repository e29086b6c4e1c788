import type { Knex } from 'knex'
import { pause, within } from '../../core/background.js'
import { fail, option } from '../../core/check.js'
import { FlashSaleError } from '../../core/errors.js'
import { type Dialect, dialectOf } from './dialect.js'
import { clientOf, cut, isBroken, type KnexClient, type RawConnection } from './driver.js'
import { Conflict, givenUp, StatementFailed } from './failures.js'
import { type Tables, tablesOf } from './names.js'
import { failedOn, type Line, Statements } from './statements.js'
import { commitMayHoldAfter } from './troubles.js'
import { Tx } from './tx.js'

export interface DatabaseOptions {
  /** A knex on the primary, opened and closed by the host; not a transaction. */
  readonly knex: Knex
  /** Put before every table name. @defaultValue `seckill_` */
  readonly prefix?: string
  /**
   * How long one statement may wait for a lock, ms (MySQL counts whole seconds). PostgreSQL ends it 500 ms later
   * whatever it does; everywhere the connection is cut 1 s later. @defaultValue 5,000
   */
  readonly statementTimeoutMs?: number
  /** How long a call waits for a connection of the pool before it throws `DB_BUSY`, ms. @defaultValue 5,000 */
  readonly acquireTimeoutMs?: number
  /** How long a hook may take, ms. @defaultValue 10,000 */
  readonly hookTimeoutMs?: number
  /** How often a unit of work is tried when the database is in trouble. @defaultValue 8 */
  readonly maxAttempts?: number
  /** No further try begins when so many ms have passed since the first. @defaultValue 15,000 */
  readonly giveUpAfterMs?: number
}

/** Somebody else's progress, not trouble: each conflict means that another unit was committed. */
const MAX_CONFLICTS = 100
const MAX_PAUSE_MS = 500

/** Transactions that are repeated as a whole or not at all, on connections that are lent and may be poisoned. */
export class Database {
  readonly dialect: Dialect
  readonly tables: Tables
  readonly #knex: Knex
  readonly #limits: {
    readonly statementMs: number
    readonly acquireMs: number
    readonly hookMs: number
    readonly attempts: number
    readonly giveUpMs: number
  }

  constructor(o: DatabaseOptions) {
    if (typeof o?.knex !== 'function' || !o.knex.client)
      fail('BAD_OPTION', 'option knex', 'a knex instance', o?.knex)
    // In a host's transaction a deadlock takes the host's half away, and a repeat would go on without it.
    if (o.knex.isTransaction) fail('BAD_OPTION', 'option knex', 'no transaction', 'one')
    this.#knex = o.knex
    this.dialect = dialectOf(clientOf(o.knex).dialect)
    this.tables = tablesOf(o.prefix)
    this.#limits = {
      statementMs: option(o.statementTimeoutMs, 'statementTimeoutMs', 5_000, 100, 600_000),
      acquireMs: option(o.acquireTimeoutMs, 'acquireTimeoutMs', 5_000, 10, 600_000),
      hookMs: option(o.hookTimeoutMs, 'hookTimeoutMs', 10_000, 10, 600_000),
      attempts: option(o.maxAttempts, 'maxAttempts', 8, 1, 1_000),
      giveUpMs: option(o.giveUpAfterMs, 'giveUpAfterMs', 15_000, 1, 3_600_000),
    }
  }

  /**
   * Runs `work` in one READ COMMITTED transaction. Deadlocks, timeouts, duplicate keys, lost connections and read-only
   * servers undo and repeat all of it; so does a lost answer to COMMIT, hence `work` begins by looking what is there.
   * Throws `DB_BUSY` or `DB_UNAVAILABLE` (nothing was written) or `OUTCOME_UNKNOWN`; what `work` itself throws comes
   * through after the rollback.
   */
  write<T>(work: (tx: Tx) => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.#repeat((afterConflict) => this.#transaction(work, afterConflict), signal)
  }

  /** Runs statements that only read, each for itself. Throws `DB_UNAVAILABLE` or `DB_BUSY`. */
  read<T>(work: (on: Statements) => Promise<T>): Promise<T> {
    return this.#repeat(() => this.#lend((line) => work(new Statements(line))))
  }

  /** One consistent view over many statements; holds a connection until the generator ends or is returned. */
  async *view<T>(pages: (on: Statements) => AsyncGenerator<T>): AsyncGenerator<T> {
    const connection = await this.#repeat(() => this.#acquire())
    const on = new Statements(this.#line(connection))
    try {
      for (const sql of this.dialect.openView) await on.all(sql)
      yield* pages(on)
    } catch (error) {
      this.#drop(connection)
      throw error instanceof StatementFailed ? givenUp(error, false) : error
    } finally {
      if (!isBroken(connection)) await on.all('ROLLBACK').catch(() => this.#drop(connection))
      await this.#client.releaseConnection(connection)
    }
  }

  /** Lends one connection, without a deadline, for DDL. */
  async session<T>(
    work: (run: (sql: string) => Promise<readonly object[]>) => Promise<T>,
  ): Promise<T> {
    const connection = await this.#acquire()
    try {
      return await work(async (sql) =>
        this.dialect.rows(await this.#client.query(connection, { sql, method: 'raw' })),
      )
    } catch (error) {
      this.#drop(connection)
      throw error instanceof FlashSaleError
        ? error
        : givenUp(new StatementFailed('other', error), false)
    } finally {
      await this.#client.releaseConnection(connection)
    }
  }

  get #client(): KnexClient {
    return clientOf(this.#knex)
  }

  #line(connection: RawConnection): Line {
    const { dialect } = this
    return { dialect, client: this.#client, connection, statementMs: this.#limits.statementMs }
  }

  async #repeat<T>(
    unit: (afterConflict: boolean) => Promise<T>,
    signal: AbortSignal = new AbortController().signal,
  ): Promise<T> {
    const { attempts, giveUpMs } = this.#limits
    const startedAt = performance.now()
    let troubles = 0
    let conflicts = 0
    let mayHaveCommitted = false
    for (;;) {
      if (signal.aborted) throw stopped(signal, mayHaveCommitted)
      try {
        return await unit(conflicts > 0)
      } catch (failure) {
        if (failure instanceof Conflict) conflicts++
        else if (failure instanceof StatementFailed) troubles++
        else throw failure
        mayHaveCommitted ||= failure instanceof StatementFailed && failure.mayHaveCommitted
        const hopeless = failure instanceof StatementFailed && failure.trouble === 'other'
        const spentMs = performance.now() - startedAt
        if (hopeless || troubles >= attempts || conflicts >= MAX_CONFLICTS || spentMs >= giveUpMs)
          throw givenUp(failure, mayHaveCommitted)
        // Full jitter: those who met in a deadlock must not meet again.
        const ceilingMs = Math.min(MAX_PAUSE_MS, 10 * 2 ** Math.min(troubles + conflicts, 8))
        await pause(Math.random() * ceilingMs, signal)
      }
    }
  }

  async #transaction<T>(work: (tx: Tx) => Promise<T>, afterConflict: boolean): Promise<T> {
    return this.#lend(async (line) => {
      const { dialect, connection } = line
      const { statementMs, hookMs } = this.#limits
      const aside = new Statements(line)
      const watch = new Watch(connection, statementMs)
      let committing = false
      let thrown: unknown
      if (dialect.prepareSession) await aside.all(dialect.prepareSession(statementMs))
      watch.arm() // knex sends BEGIN
      try {
        const value = await this.#knex.transaction(
          async (trx) => {
            watch.disarm()
            // knex comes here even when BEGIN failed; what it then rejects with says why.
            if (trx.isCompleted()) throw new Error('the transaction did not begin')
            const tx = new Tx(line, trx, { hookMs, afterConflict })
            try {
              if (dialect.openWrite) await tx.all(dialect.openWrite(statementMs, this.tables.stock))
              const value = await work(tx)
              committing = true
              return value
            } catch (error) {
              thrown = error
              throw error
            } finally {
              watch.arm() // knex sends COMMIT or ROLLBACK
            }
          },
          // A connection of our own, because afterwards it is judged, and dropped or given back as it was.
          {
            connection,
            ...(dialect.isolation ? { isolationLevel: 'read committed' as const } : {}),
          },
        )
        if (dialect.restoreSession)
          await aside.all(dialect.restoreSession).catch(() => this.#drop(connection))
        return value
      } catch (error) {
        const failure = thrown ?? this.#outer(connection, error, committing)
        // knex sends no ROLLBACK after a COMMIT that was refused; SQLite's transaction is then still open.
        const ended =
          error === thrown || (committing && (await aside.all('ROLLBACK').then(yes, no)))
        const restored = () =>
          !dialect.restoreSession || aside.all(dialect.restoreSession).then(yes, no)
        if (!ended || isBroken(connection) || !(await restored())) this.#drop(connection)
        throw failure
      } finally {
        watch.disarm()
      }
    })
  }

  /** An error at BEGIN or COMMIT; a read-only server may say so only there. */
  #outer(connection: RawConnection, error: unknown, committing: boolean): StatementFailed {
    const mayHold = committing && (isBroken(connection) || commitMayHoldAfter(error))
    const { trouble } = failedOn(connection, error)
    return new StatementFailed(trouble, error, mayHold)
  }

  async #lend<T>(work: (line: Line) => Promise<T>): Promise<T> {
    const connection = await this.#acquire()
    try {
      return await work(this.#line(connection))
    } finally {
      await this.#client.releaseConnection(connection)
    }
  }

  #drop(connection: RawConnection): void {
    cut(connection, new Error('dropped after an error'))
  }

  async #acquire(): Promise<RawConnection> {
    const { acquireMs } = this.#limits
    const client = this.#client
    const coming = client.acquireConnection()
    try {
      return await within(coming, acquireMs, () => {
        // It may still come; then it goes straight back.
        coming.then((connection) => client.releaseConnection(connection)).catch(() => undefined)
        throw busy(`no connection within ${acquireMs} ms`)
      })
    } catch (error) {
      if (error instanceof FlashSaleError) throw error
      if (error instanceof Error && error.name === 'KnexTimeoutError')
        throw busy('no free connection')
      // Whatever keeps a connection from being made: refused, wrong password, pool destroyed.
      throw new StatementFailed('connection', error)
    }
  }
}

/** The deadline of the statements that knex sends by itself. */
class Watch {
  #timer: NodeJS.Timeout | undefined

  constructor(
    private readonly connection: RawConnection,
    private readonly statementMs: number,
  ) {}

  arm(): void {
    this.disarm()
    const late = () => cut(this.connection, new Error('no answer to BEGIN, COMMIT or ROLLBACK'))
    this.#timer = setTimeout(late, this.statementMs + 1_000)
  }

  disarm(): void {
    clearTimeout(this.#timer)
  }
}

const yes = () => true
const no = () => false

function busy(why: string): FlashSaleError {
  return new FlashSaleError('DB_BUSY', `the database was too busy, nothing was written: ${why}`)
}

function stopped(signal: AbortSignal, mayHaveCommitted: boolean): FlashSaleError {
  const cause = { cause: signal.reason }
  return mayHaveCommitted
    ? new FlashSaleError(
        'OUTCOME_UNKNOWN',
        'stopped before a lost COMMIT could be looked up',
        cause,
      )
    : new FlashSaleError('STOPPED', 'stopped before anything was written', cause)
}
