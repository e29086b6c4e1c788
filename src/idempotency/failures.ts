import { FlashSaleError } from '../core/errors.js'

/** By which a database says: not now, and nothing of it was kept. MySQL's numbers, PostgreSQL's states. */
const BUSY: ReadonlySet<string | number> = new Set([
  // lock wait, deadlock (the whole transaction is gone), MariaDB's snapshot conflict, interrupted, time limits
  ...[1205, 1213, 1020, 1317, 1969, 3024],
  // serialization, deadlock, lock_timeout, statement_timeout
  ...['40001', '40P01', '55P03', '57014'],
])

/** --read-only, transaction characteristic, innodb_read_only; PostgreSQL. */
export const READ_ONLY: ReadonlySet<string | number> = new Set([1290, 1792, 1836, '25006'])

export const DUPLICATE_KEY = 1062
export const LOCK_WAIT_TIMEOUT = 1205
/** MySQL has rolled the whole transaction back, and each further statement commits by itself. */
export const DEADLOCK = 1213

/** MySQL's error number, else the driver's code. */
export function codeOf(error: unknown): string | number {
  const { errno, code } = (error ?? {}) as { readonly errno?: unknown; readonly code?: unknown }
  if (typeof errno === 'number' && errno > 0) return errno
  return typeof code === 'string' ? code : ''
}

/** An error of one of our own statements, typed. */
export function databaseError(error: unknown, doing: string): FlashSaleError {
  if (error instanceof FlashSaleError) return error
  const cause = withoutStatement(error)
  const code = codeOf(error)
  const noConnection = error instanceof Error && error.name === 'KnexTimeoutError'
  if (noConnection || BUSY.has(code) || String(code).startsWith('SQLITE_BUSY'))
    return new FlashSaleError('DB_BUSY', `no turn to ${doing}: ${cause.message}`, { cause })
  return new FlashSaleError('DB_UNAVAILABLE', `could not ${doing}: ${cause.message}`, { cause })
}

/** knex puts the statement with its values before the driver's message: results and keys do not belong in a log. */
export function withoutStatement(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error))
  const { sqlMessage } = error as { readonly sqlMessage?: unknown }
  const own = typeof sqlMessage === 'string' ? sqlMessage : error.message.split(' - ').at(-1)
  return Object.assign(new Error(own?.slice(0, 300)), { code: codeOf(error) })
}
