import { fail } from '../../core/check.js'
import { FlashSaleError } from '../../core/errors.js'
import type { Result } from './driver.js'

export type DialectName = 'mysql' | 'pg' | 'sqlite'

/** How a column's values travel: ids and JSON are text, everything else is a whole number. */
export type ColumnKind = 'text' | 'int'
export interface Column {
  readonly name: string
  readonly kind: ColumnKind
}

/** Everything in which the databases differ at run time; `schema.ts` has the rest. */
export interface Dialect {
  readonly name: DialectName
  /** SQL for the database's clock, epoch ms. */
  readonly now: string
  /** Whether SET TRANSACTION is understood. */
  readonly isolation: boolean
  /** Clauses after a SELECT: rows stay as they are, are mine alone, are mine and those of others are passed over. */
  readonly forShare: string
  readonly forUpdate: string
  readonly skipLocked: string
  /** Statements before BEGIN, and their undoing before the connection goes back to its owner. */
  readonly prepareSession?: (limitMs: number) => string
  readonly restoreSession?: string
  /** The first statement of a writing transaction. */
  readonly openWrite?: (limitMs: number, stock: string) => string
  /** Opens a transaction whose reads all see one moment. */
  readonly openView: readonly string[]
  /** SQL for whether this server refuses writes, as a replica does: 1 or true. */
  readonly readOnly: string
  /** After a table's name: by this index. MySQL and MariaDB else walk an SKU from its first order for every page of it. */
  readonly byIndex: (index: string) => string
  /** One INSERT of many rows. */
  insert(
    table: string,
    columns: readonly Column[],
    rows: readonly (readonly unknown[])[],
  ): { readonly sql: string; readonly bindings: readonly unknown[] }
  rows(result: Result): readonly Record<string, unknown>[]
  affected(result: Result): number
}

function insertValues(
  table: string,
  columns: readonly Column[],
  rows: readonly (readonly unknown[])[],
) {
  const row = `(${columns.map(() => '?').join(',')})`
  const names = columns.map((c) => c.name).join(',')
  return {
    sql: `INSERT INTO ${table} (${names}) VALUES ${Array(rows.length).fill(row).join(',')}`,
    bindings: rows.flat(),
  }
}

const MYSQL: Dialect = {
  name: 'mysql',
  // UTC_TIMESTAMP has no hour that runs twice, as UNIX_TIMESTAMP(NOW()) would in a zone with summer time.
  now: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000",
  isolation: true,
  forShare: ' LOCK IN SHARE MODE',
  forUpdate: ' FOR UPDATE',
  skipLocked: ' FOR UPDATE SKIP LOCKED',
  // Whole seconds are all there is. The connection is lent: its owner finds it as he left it.
  prepareSession: (limitMs) =>
    `SET @seckill_lock_wait = @@SESSION.innodb_lock_wait_timeout, SESSION innodb_lock_wait_timeout = ${Math.ceil(limitMs / 1000)}`,
  restoreSession: 'SET SESSION innodb_lock_wait_timeout = @seckill_lock_wait',
  openView: [
    'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ',
    'START TRANSACTION WITH CONSISTENT SNAPSHOT',
  ],
  readOnly: '@@global.read_only',
  byIndex: (index) => ` FORCE INDEX (${index})`,
  insert: insertValues,
  rows: ({ response }) => (response as [Record<string, unknown>[]])[0],
  affected: ({ response }) => (response as [{ affectedRows: number }])[0].affectedRows,
}

const PG: Dialect = {
  name: 'pg',
  now: 'floor(extract(epoch from clock_timestamp()) * 1000)::bigint',
  isolation: true,
  forShare: ' FOR SHARE',
  forUpdate: ' FOR UPDATE',
  skipLocked: ' FOR UPDATE SKIP LOCKED',
  // `true`: for this transaction only. A lock that does not come is to be named as that, so the statement has longer.
  openWrite: (limitMs) =>
    `SELECT set_config('lock_timeout', '${limitMs}', true), set_config('statement_timeout', '${limitMs + 500}', true)`,
  openView: ['BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY'],
  readOnly: 'pg_is_in_recovery()',
  byIndex: () => '',
  // One array a column: half the time of a placeholder for each value.
  insert: (table, columns, rows) => ({
    sql: `INSERT INTO ${table} (${columns.map((c) => c.name).join(',')}) SELECT * FROM unnest(${columns
      .map((c) => (c.kind === 'text' ? '?::text[]' : '?::bigint[]'))
      .join(',')})`,
    bindings: columns.map((_, i) => rows.map((row) => row[i])),
  }),
  rows: ({ response }) => (response as { rows: Record<string, unknown>[] }).rows,
  affected: ({ response }) => (response as { rowCount: number }).rowCount,
}

const SQLITE: Dialect = {
  name: 'sqlite',
  now: "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)",
  isolation: false,
  forShare: '',
  forUpdate: '',
  skipLocked: '',
  // knex begins deferred; a read that turns into a write is refused with BUSY at once when another process wrote
  // in between. A write that hits nothing takes the write lock first, as BEGIN IMMEDIATE would.
  openWrite: (_, stock) => `UPDATE ${stock} SET available = available WHERE 1 = 0`,
  openView: ['BEGIN'],
  readOnly: '0',
  byIndex: () => '',
  insert: insertValues,
  rows: ({ response }) => response as Record<string, unknown>[],
  affected: ({ response, context }) =>
    context?.changes ?? (response as { changes: number }).changes,
}

/** By knex's own word for it, so that every driver of a database is the same to us. */
export function dialectOf(knexDialect: unknown): Dialect {
  if (knexDialect === 'mysql') return MYSQL
  if (knexDialect === 'postgresql') return PG
  if (knexDialect === 'sqlite3') return SQLITE
  return fail(
    'BAD_OPTION',
    'option knex',
    'a client of MySQL, MariaDB, PostgreSQL or SQLite',
    knexDialect,
  )
}

/** Drivers hand out bigint, COUNT and SUM as numbers, strings or BigInts; whatever is not exact is not believed. */
export function exact(value: unknown, name: string): number {
  const number =
    typeof value === 'number'
      ? value
      : typeof value === 'bigint' || (typeof value === 'string' && /^-?\d{1,16}$/.test(value))
        ? Number(value)
        : Number.NaN
  if (Number.isSafeInteger(number)) return number
  throw new FlashSaleError(
    'CORRUPT',
    `${name} is not an exact whole number: ${String(value).slice(0, 40)}`,
  )
}
