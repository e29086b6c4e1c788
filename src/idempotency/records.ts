import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { FlashSaleError } from '../core/errors.js'
import { codeOf, DUPLICATE_KEY, LOCK_WAIT_TIMEOUT } from './failures.js'
import { type Dialect, NOW, rows, type SqlRunner, write } from './sql.js'

/** A record as the database holds it now. */
export interface IdempotencyRecord {
  readonly key: string
  readonly fingerprint: string
  /** JSON text once the work is done, else null. */
  readonly result: string | null
  /** Number of the claim; 0 for a record made within a caller's transaction. */
  readonly fence: number
  /** Which call made it, or took it over last. */
  readonly holder: string
  /** By the database's clock. */
  readonly leased: boolean
}

export interface Claim {
  readonly key: string
  readonly fingerprint: string
  readonly holder: string
  readonly leaseMs: number
}

/** How often another process' uncommitted claim is looked at on PostgreSQL. */
const POLL_MS = 20
const PURGE_ROWS = 500

/**
 * The statements on the table of records. `db` is the caller's transaction or the pool; every statement is one of
 * its own, so that nothing ever asks for a second connection while holding one.
 */
export class Records {
  constructor(
    private readonly dialect: Dialect,
    private readonly table: string,
  ) {}

  async read(db: SqlRunner, key: string, lock = ''): Promise<IdempotencyRecord | null> {
    const [row] = await rows(
      db,
      `SELECT biz_key, fingerprint, state, fence, holder, result,
        CASE WHEN lease_until > ${NOW[this.dialect]} THEN 1 ELSE 0 END AS leased
        FROM ${this.table} WHERE biz_key = ?${lock}`,
      [key],
    )
    if (!row) return null
    const done = row['state'] === 'done'
    if (row['biz_key'] !== key || done !== (typeof row['result'] === 'string'))
      throw new FlashSaleError('CORRUPT', `the record of ${key} in ${this.table} is not readable`)
    return {
      key,
      fingerprint: String(row['fingerprint']),
      result: done ? String(row['result']) : null,
      fence: Number(row['fence']),
      holder: String(row['holder']),
      leased: Number(row['leased']) === 1,
    }
  }

  /**
   * Inserts a record that commits with the caller's transaction, and by its unique key keeps everybody else out until then.
   * `exists`: there is one already. `late`: another transaction has inserted one and not ended by `until`.
   */
  async insertInTransaction(
    trx: SqlRunner,
    claim: Claim,
    until: number,
  ): Promise<'inserted' | 'exists' | 'late'> {
    const insert = async () => ((await this.#insert(trx, claim, '0')) ? 'inserted' : 'exists')
    if (this.dialect === 'sqlite') return insert()
    if (this.dialect === 'mysql') return this.#withLockWaitOnMySql(trx, until, insert)
    // Locks last to the end of the transaction: a duplicate should not hold up the next one.
    if (await this.read(trx, claim.key)) return 'exists'
    return (await this.#lockOnPostgres(trx, claim.key, until)) ? insert() : 'late'
  }

  /** Reads what made an insert fail; a locking read, since MySQL's snapshot may be older than that row. */
  readInTransaction(trx: SqlRunner, key: string): Promise<IdempotencyRecord | null> {
    // The failed insert holds this very lock already; FOR UPDATE would want more, and deadlock with its like.
    return this.read(trx, key, this.dialect === 'mysql' ? ' LOCK IN SHARE MODE' : '')
  }

  /**
   * False when the record is gone: the transaction was lost under the work (a deadlock that somebody swallowed), and
   * what is written now stands alone. So these two touch what this very call has inserted, and no record of another's.
   */
  async finishInTransaction(trx: SqlRunner, claim: Claim, result: string): Promise<boolean> {
    const sql = `UPDATE ${this.table} SET state = 'done', result = ?, changed_at = ${NOW[this.dialect]}
      WHERE biz_key = ? AND holder = ? AND state = 'running'`
    return (await write(trx, sql, [result, claim.key, claim.holder])) === 1
  }

  async removeInTransaction(trx: SqlRunner, claim: Claim): Promise<void> {
    const sql = `DELETE FROM ${this.table} WHERE biz_key = ? AND holder = ? AND state = 'running'`
    await write(trx, sql, [claim.key, claim.holder])
  }

  /** Inserts a claim unless there is a record. Its fence is the time: above all earlier ones, those purged included. */
  async insertClaim(db: SqlRunner, c: Claim): Promise<void> {
    await this.#insert(db, c, NOW[this.dialect])
  }

  /** Takes over a claim whose lease is over. */
  async takeOver(db: SqlRunner, c: Claim): Promise<void> {
    const now = NOW[this.dialect]
    await write(
      db,
      `UPDATE ${this.table} SET holder = ?, fence = CASE WHEN fence < ${now} THEN ${now} ELSE fence + 1 END,
        lease_until = ${now} + ?, changed_at = ${now}
        WHERE biz_key = ? AND fingerprint = ? AND state = 'running' AND fence > 0 AND lease_until <= ${now}`,
      [c.holder, c.leaseMs, c.key, c.fingerprint],
    )
  }

  /** Stores the result if the claim still is the latest; false when it is not, or was finished before. */
  async finishClaim(db: SqlRunner, key: string, fence: number, result: string): Promise<boolean> {
    const sql = `UPDATE ${this.table} SET state = 'done', result = ?, changed_at = ${NOW[this.dialect]}
      WHERE biz_key = ? AND fence = ? AND state = 'running'`
    return (await write(db, sql, [result, key, fence])) === 1
  }

  /** Ends the lease now. The row stays: its fence and fingerprint bind whoever tries again. */
  async releaseClaim(db: SqlRunner, key: string, fence: number): Promise<void> {
    await write(
      db,
      `UPDATE ${this.table} SET lease_until = 0 WHERE biz_key = ? AND fence = ? AND state = 'running'`,
      [key, fence],
    )
  }

  /** Deletes one portion of old records; the second look at the age spares a row that was just taken over. */
  async purge(db: SqlRunner, olderThanMs: number): Promise<number> {
    const now = NOW[this.dialect]
    const old = `changed_at < ${now} - ? AND lease_until < ${now} - ?`
    const age = [olderThanMs, olderThanMs]
    // Keys first, then by key: MySQL would lock the gaps of the index, and with them inserts, while it deletes by age.
    const found = await rows(
      db,
      `SELECT biz_key FROM ${this.table} WHERE ${old} ORDER BY changed_at LIMIT ${PURGE_ROWS}`,
      age,
    )
    const keys = found.map((row) => String(row['biz_key']))
    if (keys.length === 0) return 0
    const marks = keys.map(() => '?').join(', ')
    const sql = `DELETE FROM ${this.table} WHERE biz_key IN (${marks}) AND ${old}`
    return write(db, sql, [...keys, ...age])
  }

  /** False when a record of that key exists. Only a duplicate of the key counts as that, never cut or invalid data. */
  async #insert(db: SqlRunner, c: Claim, fence: string): Promise<boolean> {
    const sql = `INSERT INTO ${this.table}
      (biz_key, fingerprint, state, fence, holder, lease_until, changed_at)
      VALUES (?, ?, 'running', ${fence}, ?, ${fence} + ?, ${NOW[this.dialect]})`
    const values = [c.key, c.fingerprint, c.holder, c.leaseMs]
    if (this.dialect !== 'mysql')
      return (await write(db, `${sql} ON CONFLICT (biz_key) DO NOTHING`, values)) === 1
    try {
      await write(db, sql, values)
      return true
    } catch (error) {
      // The table has one unique key only. On MySQL a failed statement leaves the transaction usable.
      if (codeOf(error) === DUPLICATE_KEY) return false
      throw error
    }
  }

  /**
   * An insert that waits for another transaction can be bounded on PostgreSQL by an error only, and an error ends the
   * caller's transaction. An advisory lock on the key can be tried instead; it lasts as long as the transaction.
   */
  async #lockOnPostgres(trx: SqlRunner, key: string, until: number): Promise<boolean> {
    const hash = createHash('sha256').update(`${this.table} ${key}`).digest().readBigInt64BE(0)
    for (;;) {
      const sql = 'SELECT pg_try_advisory_xact_lock(CAST(? AS BIGINT)) AS locked'
      const [row] = await rows(trx, sql, [String(hash)])
      if (row?.['locked'] === true) return true
      if (performance.now() >= until) return false
      await sleep(POLL_MS)
    }
  }

  /** Bounds the wait for locks during `work`; MySQL counts it in whole seconds, one at least. */
  async #withLockWaitOnMySql<T>(
    trx: SqlRunner,
    until: number,
    work: () => Promise<T>,
  ): Promise<T | 'late'> {
    const seconds = Math.max(1, Math.ceil((until - performance.now()) / 1000))
    await write(
      trx,
      `SET @seckill_lock_wait = @@SESSION.innodb_lock_wait_timeout, SESSION innodb_lock_wait_timeout = ${seconds}`,
    )
    try {
      return await work()
    } catch (error) {
      if (codeOf(error) !== LOCK_WAIT_TIMEOUT) throw error
      // Usually that undoes the statement only. A server can be set to undo the transaction, which then must not go on.
      const [row] = await rows(trx, 'SELECT @@innodb_rollback_on_timeout AS undone')
      if (Number(row?.['undone']) !== 0) throw error
      return 'late'
    } finally {
      await write(trx, 'SET SESSION innodb_lock_wait_timeout = @seckill_lock_wait')
    }
  }
}
