import type { Knex } from 'knex'

/** What is used of a driver's connection: enough to tell that it is dead, and to cut it. */
export interface RawConnection {
  /** knex's mark: its pool destroys a marked connection instead of lending it again. */
  __knex__disposed?: unknown
  readonly stream?: Cuttable
  readonly connection?: { readonly stream?: Cuttable }
  /** SQLite's, by better-sqlite3 and by sqlite3. */
  readonly memory?: unknown
  readonly filename?: unknown
}
interface Cuttable {
  readonly destroyed?: boolean
  destroy?(error?: Error): unknown
}

export interface Result {
  readonly response: unknown
  readonly context?: { readonly changes?: number }
}

/**
 * What is used of `knex.client`. Statements go through its `query`, not through `knex.raw`: the host's
 * `postProcessResponse` and `wrapIdentifier` (camel-case mappers) must not touch our rows.
 */
export interface KnexClient {
  readonly dialect: string
  acquireConnection(): Promise<RawConnection>
  releaseConnection(connection: RawConnection): Promise<void>
  query(
    connection: RawConnection,
    statement: {
      readonly sql: string
      readonly bindings?: readonly unknown[]
      readonly method: 'raw' | 'update'
    },
  ): Promise<Result>
}

export function clientOf(knex: Knex): KnexClient {
  return knex.client as KnexClient
}

/**
 * Ends what runs on a connection, and the connection with it: the server rolls back what was not committed, and the
 * pool makes a new one. Only a connection that is itself the database, SQLite's in memory, stays.
 */
export function cut(connection: RawConnection, why: Error): void {
  if (connection.memory === true || connection.filename === ':memory:') return
  connection.__knex__disposed ??= why
  const stream = connection.stream ?? connection.connection?.stream
  stream?.destroy?.(why)
}

/** Unusable, whatever the last error said. */
export function isBroken(connection: RawConnection): boolean {
  const stream = connection.stream ?? connection.connection?.stream
  return Boolean(connection.__knex__disposed) || stream?.destroyed === true
}
