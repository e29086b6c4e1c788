import { within } from '../../core/background.js'
import { FlashSaleError } from '../../core/errors.js'
import type { Column, Dialect } from './dialect.js'
import { cut, isBroken, type KnexClient, type RawConnection, type Result } from './driver.js'
import { StatementFailed } from './failures.js'
import { troubleOf } from './troubles.js'

/** PostgreSQL allows 65,535 placeholders, SQLite 32,766; 500 rows of 17 columns are 8,500. */
const ROWS_A_STATEMENT = 500
/** MariaDB turns IN lists of more than 1,000 into a join with a table of its own. */
const VALUES_A_LIST = 500

export type Row = Readonly<Record<string, unknown>>

/** What statements run on. */
export interface Line {
  readonly dialect: Dialect
  readonly client: KnexClient
  readonly connection: RawConnection
  readonly statementMs: number
}

/** Statements on one connection. Each has a deadline, after which the connection is cut and its work undone. */
export class Statements {
  readonly dialect: Dialect

  constructor(protected readonly line: Line) {
    this.dialect = line.dialect
  }

  async all(sql: string, bindings: readonly unknown[] = []): Promise<readonly Row[]> {
    return this.dialect.rows(await this.#run('raw', sql, bindings))
  }

  /** `sql` with a list in place of each `(??)`, asked in pieces. */
  async allIn(
    sql: string,
    list: readonly string[],
    ...more: readonly (readonly string[])[]
  ): Promise<readonly Row[]> {
    const rows: Row[] = []
    for (const part of pieces(list, ...more))
      rows.push(...(await this.all(withLists(sql, part), part.flat())))
    return rows
  }

  /** Returns the number of rows affected. */
  async run(sql: string, bindings: readonly unknown[] = []): Promise<number> {
    return this.dialect.affected(await this.#run('update', sql, bindings))
  }

  /** Like {@link run} with a list in place of `(??)`, which comes after `bindings`. */
  async runIn(sql: string, bindings: readonly unknown[], list: readonly string[]): Promise<number> {
    let affected = 0
    for (const part of pieces(list))
      affected += await this.run(withLists(sql, part), [...bindings, ...part.flat()])
    return affected
  }

  async insert(
    table: string,
    columns: readonly Column[],
    rows: readonly (readonly unknown[])[],
  ): Promise<void> {
    for (let i = 0; i < rows.length; i += ROWS_A_STATEMENT) {
      const part = rows.slice(i, i + ROWS_A_STATEMENT)
      const { sql, bindings } = this.dialect.insert(table, columns, part)
      const affected = await this.run(sql, bindings)
      // A trigger or a rule of the host may swallow rows without an error.
      if (affected !== part.length)
        throw new FlashSaleError('CORRUPT', `${table} took ${affected} of ${part.length} rows`)
    }
  }

  /** Database time, epoch ms. */
  async now(): Promise<number> {
    const [row] = await this.all(`SELECT ${this.dialect.now} AS now_ms`)
    return Number(row?.now_ms)
  }

  /** What the failure of a statement means here. */
  protected failed(error: unknown): Error {
    if (error instanceof StatementFailed) return error
    return failedOn(this.line.connection, error)
  }

  async #run(method: 'raw' | 'update', sql: string, bindings: readonly unknown[]): Promise<Result> {
    const { client, connection, statementMs } = this.line
    try {
      const running = client.query(connection, { sql, bindings, method })
      return await withDeadline(connection, statementMs, running)
    } catch (error) {
      throw this.failed(error)
    }
  }
}

/** A connection that lost its server, or whose server became read-only, does not go back into the pool. */
export function failedOn(connection: RawConnection, error: unknown): StatementFailed {
  const trouble = isBroken(connection) ? 'connection' : troubleOf(error)
  if (trouble === 'connection' || trouble === 'read-only')
    cut(connection, new Error('dropped after an error'))
  return new StatementFailed(trouble, error)
}

/** The server's own limit comes first; this one is for a server or a network that no longer answers. */
export function withDeadline<T>(
  connection: RawConnection,
  statementMs: number,
  work: Promise<T>,
): Promise<T> {
  const limitMs = statementMs + 1_000
  return within(work, limitMs, () => {
    const late = new Error(`no answer from the database within ${limitMs} ms`)
    cut(connection, late)
    throw new StatementFailed('retry', late)
  })
}

/** Lists side by side, cut at the same places. */
function* pieces(
  ...lists: readonly (readonly string[])[]
): Generator<readonly (readonly string[])[]> {
  const length = lists[0]?.length ?? 0
  for (let i = 0; i < length; i += VALUES_A_LIST)
    yield lists.map((list) => list.slice(i, i + VALUES_A_LIST))
}

function withLists(sql: string, lists: readonly (readonly string[])[]): string {
  let i = 0
  return sql.replaceAll('(??)', () => `(${(lists[i++] ?? []).map(() => '?').join(',')})`)
}
