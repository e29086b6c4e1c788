import * as check from '../core/check.js'
import { codeOf, READ_ONLY } from './failures.js'

export type SqlValue = string | number

/** What is used of `knex.client`. */
interface SqlClient {
  readonly dialect: string
  acquireConnection(): Promise<object>
  releaseConnection(connection: object): Promise<unknown>
  query(
    connection: object,
    statement: {
      readonly sql: string
      readonly bindings: readonly SqlValue[]
      readonly method: 'raw' | 'update'
    },
  ): Promise<unknown>
}

/**
 * What is used of knex; a `Knex` and a `Knex.Transaction` both have it. Statements go through the client, not through
 * `raw`, whose answers a host's `postProcessResponse` may rewrite.
 */
export interface SqlRunner {
  readonly client: SqlClient
}

/** What is used of a `Knex.Transaction`. */
export interface SqlTransaction extends SqlRunner {
  readonly isTransaction?: boolean
  isCompleted(): boolean
}

export type Dialect = 'mysql' | 'pg' | 'sqlite'

const DIALECTS: Readonly<Record<string, Dialect>> = {
  mysql: 'mysql',
  postgresql: 'pg',
  sqlite3: 'sqlite',
}

export function dialectOf(knex: SqlRunner): Dialect {
  const name = knex?.client?.dialect
  const dialect = typeof name === 'string' ? DIALECTS[name] : undefined
  return (
    dialect ?? check.fail('BAD_OPTION', 'option knex', 'knex for MySQL, PostgreSQL or SQLite', name)
  )
}

/** The database's clock in epoch milliseconds; in UTC throughout, since local time runs one hour twice a year. */
export const NOW: Readonly<Record<Dialect, string>> = {
  mysql: "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)",
  pg: 'CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)',
  sqlite: "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
}

/** The rows of a SELECT. */
export async function rows(
  db: SqlRunner,
  sql: string,
  bindings: readonly SqlValue[] = [],
): Promise<readonly Record<string, unknown>[]> {
  const { response } = await run(db, sql, bindings, 'raw')
  const found = {
    mysql: () => (response as readonly unknown[])[0],
    pg: () => (response as { readonly rows: unknown }).rows,
    sqlite: () => response,
  }[dialectOf(db)]()
  return found as readonly Record<string, unknown>[]
}

/**
 * Runs a statement and returns how many rows it wrote. On MySQL a row that was matched and not changed may count or not, as
 * the host has set `FOUND_ROWS`: let it matter only where every matched row changes.
 */
export async function write(
  db: SqlRunner,
  sql: string,
  bindings: readonly SqlValue[] = [],
): Promise<number> {
  const { response, context } = await run(db, sql, bindings, 'update')
  const count = {
    mysql: () => (response as readonly [{ readonly affectedRows?: number }])[0].affectedRows,
    pg: () => (response as { readonly rowCount?: number | null }).rowCount,
    sqlite: () => context?.changes,
  }[dialectOf(db)]()
  return count ?? 0
}

interface Answer {
  readonly response: unknown
  readonly context?: { readonly changes?: number }
}

/** One statement on one connection: the transaction's, or one that the pool lends for just this long. */
async function run(
  { client }: SqlRunner,
  sql: string,
  bindings: readonly SqlValue[],
  method: 'raw' | 'update',
): Promise<Answer> {
  const connection: { __knex__disposed?: unknown } = await client.acquireConnection()
  try {
    return (await client.query(connection, { sql, bindings, method })) as Answer
  } catch (error) {
    // A server that became a replica answers for ever like this. The mark has the pool replace the connection.
    if (READ_ONLY.has(codeOf(error))) connection.__knex__disposed ??= error
    throw error
  } finally {
    await client.releaseConnection(connection)
  }
}
