/**
 * What a driver's error means for the unit of work it ended.
 * - `duplicate`: a unique key was taken. `retry`: deadlock, lock or statement timeout, lost serialization, busy file.
 * - `read-only`: this server does not write now. `connection`: it is gone, or takes no more clients.
 * - `other`: the statement itself is wrong, or the error is not a driver's.
 */
export type Trouble = 'duplicate' | 'retry' | 'read-only' | 'connection' | 'other'

const MYSQL: Readonly<Record<Exclude<Trouble, 'other'>, readonly number[]>> = {
  // ER_DUP_ENTRY, ER_DUP_ENTRY_WITH_KEY_NAME
  duplicate: [1062, 1586],
  // lock wait, deadlock, MariaDB's snapshot conflict, interrupted, MariaDB's and MySQL's time limits, NOWAIT
  retry: [1205, 1213, 1020, 1317, 1969, 3024, 3572],
  // --read-only, transaction characteristic, innodb_read_only
  'read-only': [1290, 1792, 1836],
  // too many connections, Galera not ready, shutdown, host blocked, network, users' limits, killed, gone, idle
  connection: [
    1040, 1047, 1053, 1129, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1226, 1927, 2006, 2013, 3169,
    4031,
  ],
}

/** SQLSTATE of PostgreSQL, SQLite's names, and what Node and mysql2 call a lost connection. */
const CODES: Readonly<Record<Exclude<Trouble, 'other'>, readonly string[]>> = {
  duplicate: [
    '23505',
    'SQLITE_CONSTRAINT_UNIQUE',
    'SQLITE_CONSTRAINT_PRIMARYKEY',
    'SQLITE_CONSTRAINT_ROWID',
  ],
  // serialization, deadlock, lock_timeout, statement_timeout
  retry: ['40001', '40P01', '55P03', '57014'],
  'read-only': ['25006'],
  connection: [
    '57P01',
    '57P02',
    '57P03',
    '53300',
    '25P03',
    'ECONNREFUSED',
    'ECONNRESET',
    'ECONNABORTED',
    'EPIPE',
    'ETIMEDOUT',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'ENOTFOUND',
    'EAI_AGAIN',
    'ERR_STREAM_DESTROYED',
    'SQLITE_CANTOPEN',
    'SQLITE_FULL',
  ],
}

/** SQLite adds a detail to the name (SQLITE_BUSY_SNAPSHOT); PostgreSQL has a class for connections. */
const BEGINNINGS: readonly (readonly [string, Trouble])[] = [
  ['SQLITE_BUSY', 'retry'],
  ['SQLITE_LOCKED', 'retry'],
  ['SQLITE_READONLY', 'read-only'],
  ['SQLITE_IOERR', 'connection'],
  ['08', 'connection'],
  ['PROTOCOL_', 'connection'],
]

const table = new Map<string | number, Trouble>()
for (const codes of [MYSQL, CODES])
  for (const [trouble, list] of Object.entries(codes))
    for (const code of list) table.set(code, trouble as Trouble)

interface DriverError {
  readonly code?: unknown
  readonly errno?: unknown
  readonly fatal?: unknown
  readonly cause?: unknown
  readonly message?: unknown
  readonly sqlMessage?: unknown
}

/** Looks through `cause`, so that a host may wrap what a statement in its hook threw. */
export function troubleOf(error: unknown, depth = 0): Trouble {
  if (typeof error !== 'object' || error === null || depth > 4) return 'other'
  const { code, errno, fatal, cause, message } = error as DriverError
  if (typeof errno === 'number' && table.has(errno)) return table.get(errno) as Trouble
  if (typeof code === 'string') {
    const known = table.get(code) ?? BEGINNINGS.find(([start]) => code.startsWith(start))?.[1]
    if (known) return known
    // The sqlite3 driver knows no extended codes: its message is all there is.
    if (code === 'SQLITE_CONSTRAINT' && /UNIQUE constraint failed/.test(String(message)))
      return 'duplicate'
  }
  if (fatal === true) return 'connection'
  return troubleOf(cause, depth + 1)
}

/**
 * After an error at COMMIT: may the transaction have been committed all the same? A server that names a reason has
 * rolled back, unless the reason is its own end or an interruption.
 */
export function commitMayHoldAfter(error: unknown): boolean {
  const { code, errno } = (error ?? {}) as DriverError
  if (troubleOf(error) === 'connection' || errno === 1317) return true
  if (typeof errno === 'number' && errno > 0) return false
  return !(typeof code === 'string' && /^(SQLITE_|(?!57|58|XX)[0-9A-Z]{5}$)/.test(code))
}

/** Without the statement that knex puts before a message, and the one mysql2 attaches: they carry buyers' data. */
export function withoutStatement(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error))
  const { code, errno, sqlMessage, message } = error as Error & DriverError
  const own = typeof sqlMessage === 'string' ? sqlMessage : String(message).split(' - ').at(-1)
  const plain = new Error((own ?? '').slice(0, 300))
  return Object.assign(
    plain,
    code === undefined ? {} : { code },
    errno === undefined ? {} : { errno },
  )
}
