import * as check from '../core/check.js'
import { type Dialect, dialectOf, type SqlRunner, write } from './sql.js'

export const DEFAULT_TABLE = 'seckill_idempotency'

/** Room for `_changed` within PostgreSQL's 63 characters, and nothing that needs quoting. */
export function tableName(table: unknown): string {
  if (typeof table === 'string' && /^[a-z_][a-z0-9_]{0,49}$/.test(table)) return table
  return check.fail('BAD_OPTION', 'option table', '1 to 50 of a-z 0-9 _', table)
}

/** The width of `biz_key` is the source's. Keys, and JSON with every other character escaped, are plain ASCII. */
export const MAX_KEY_LENGTH = 128
/** What MySQL's TEXT holds. */
export const MAX_RESULT_BYTES = 65_535

/**
 * Equality is byte for byte: a collation that takes `A` for `a` would answer one buyer with another's result. MySQL's
 * ascii_bin ignores trailing blanks, which no key has; its NO PAD collations differ between MySQL and MariaDB.
 */
const TYPES: Readonly<Record<Dialect, { readonly text: string; readonly after: string }>> = {
  mysql: { text: ' CHARACTER SET ascii COLLATE ascii_bin', after: ' ENGINE = InnoDB' },
  pg: { text: ' COLLATE "C"', after: '' },
  sqlite: { text: ' COLLATE BINARY', after: '' },
}

export function statements(dialect: Dialect, table: string): readonly string[] {
  const { text, after } = TYPES[dialect]
  const index = dialect === 'mysql' ? `,\n  KEY ${table}_changed (changed_at)` : ''
  const create = `CREATE TABLE IF NOT EXISTS ${table} (
  biz_key VARCHAR(${MAX_KEY_LENGTH})${text} NOT NULL PRIMARY KEY,
  fingerprint CHAR(43)${text} NOT NULL,
  state VARCHAR(8)${text} NOT NULL,
  fence BIGINT NOT NULL,
  holder VARCHAR(36)${text} NOT NULL,
  lease_until BIGINT NOT NULL,
  result TEXT${text} NULL,
  changed_at BIGINT NOT NULL${index}
)${after}`
  if (dialect === 'mysql') return [create]
  return [create, `CREATE INDEX IF NOT EXISTS ${table}_changed ON ${table} (changed_at)`]
}

export async function createTable(knex: SqlRunner, table: string): Promise<void> {
  for (const statement of statements(dialectOf(knex), table)) {
    try {
      await write(knex, statement)
    } catch {
      // Two processes that start at once: PostgreSQL's IF NOT EXISTS can lose that race, and finds the table the next time.
      await write(knex, statement)
    }
  }
}
