import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { Json } from '../core/types.js'
import { checkCall, decode, encode } from './call.js'
import { codeOf, DEADLOCK, databaseError, withoutStatement } from './failures.js'
import { type Claim, type IdempotencyRecord, Records } from './records.js'
import { createTable, DEFAULT_TABLE, statements, tableName } from './schema.js'
import { type Dialect, dialectOf, type SqlRunner, type SqlTransaction } from './sql.js'
import { Turns } from './turns.js'

export interface IdempotencyGuardOptions {
  /** The host's knex; `withLease` and `purge` take one connection of its pool for one statement at a time. */
  readonly knex: SqlRunner
  /** @defaultValue `seckill_idempotency` */
  readonly table?: string
  /**
   * How long a call waits for another with the same key before it answers `in-progress`. MySQL counts its share of the wait
   * in whole seconds, rounded up.
   * @defaultValue 1,000
   */
  readonly lockWaitMs?: number
}

/**
 * `done`: the work's value, now or (`replayed`) from an earlier call. `key-reused`: the key stands for another request.
 * `in-progress`: another call is at it; nothing was run, ask again. The value is what JSON makes of it, in both cases.
 */
export type Once<T extends Json> =
  | { readonly status: 'done'; readonly value: T; readonly replayed: boolean }
  | { readonly status: 'key-reused' }
  | { readonly status: 'in-progress' }

/** Rounds are lost only to a purge between two statements. */
const ROUNDS = 5
/** Pauses between tries to store the result of work that cannot be undone. */
const STORE_AGAIN_MS = [50, 250] as const
const MAX_LEASE_MS = 86_400_000

/**
 * Runs a piece of work once for each key and remembers its answer. Which method: `inTransaction` when all the work does
 * is written in one database transaction, `withLease` when it reaches beyond (a payment channel, a mail). One key belongs to
 * one of them.
 *
 * A key is 1 to 128 characters from `!` to `~`: user + activity + SKU, a token id, an order number. A fingerprint is any
 * text that says what is asked for; only its SHA-256 is stored. Use one guard for a table in a process.
 */
export class IdempotencyGuard {
  readonly #knex: SqlRunner
  readonly #lockWaitMs: number
  readonly #records: Records
  readonly #turns = new Turns()

  /** @throws FlashSaleError `BAD_OPTION` */
  constructor(o: IdempotencyGuardOptions) {
    if (typeof o !== 'object' || o === null) check.fail('BAD_OPTION', 'options', 'an object', o)
    this.#knex = o.knex
    this.#lockWaitMs = check.option(o.lockWaitMs, 'lockWaitMs', 1_000, 0, 60_000)
    this.#records = new Records(dialectOf(o.knex), tableName(o.table ?? DEFAULT_TABLE))
  }

  /** The guard's table, as SQL for a DBA. */
  static sql(dialect: Dialect, o: { readonly table?: string } = {}): string {
    check.oneOf(dialect, 'dialect', ['mysql', 'pg', 'sqlite'])
    return `${statements(dialect, tableName(o.table ?? DEFAULT_TABLE)).join(';\n')};\n`
  }

  /** Creates the table unless it is there. */
  static migrate(knex: SqlRunner, o: { readonly table?: string } = {}): Promise<void> {
    return createTable(knex, tableName(o.table ?? DEFAULT_TABLE))
  }

  /**
   * Record and work commit together in the caller's transaction; no other connection is used. What the work returns is
   * stored, a refusal like any value; what it throws leaves no record and goes on to the caller, who rolls back by letting it
   * through. Call it first in the transaction, and roll back whatever you wrote before on any status but `done`.
   *
   * Until the transaction ends, calls with the same key wait `lockWaitMs`. If the COMMIT is not answered, repeat the
   * whole transaction: it finds the record, or does the work.
   *
   * @param work writes through `trx` only, and does not end it
   * @throws FlashSaleError `BAD_INPUT` · `DB_BUSY` (deadlock, serialization) or `DB_UNAVAILABLE`: the transaction is lost, repeat it
   * as a whole · `CORRUPT` · whatever `work` throws
   */
  async inTransaction<T extends Json>(
    trx: SqlTransaction,
    key: string,
    fingerprint: string,
    work: () => Promise<T>,
  ): Promise<Once<T>> {
    const print = checkCall(key, fingerprint, work)
    if (trx?.isTransaction !== true || trx.isCompleted())
      throw new FlashSaleError('BAD_INPUT', 'trx must be a knex transaction that is still open')
    const claim = { key, fingerprint: print, holder: randomUUID(), leaseMs: 0 }
    const until = performance.now() + this.#lockWaitMs
    const endTurn = await this.#turns.take(key, until)
    if (!endTurn) return { status: 'in-progress' }
    try {
      for (let round = 0; round < ROUNDS; round++) {
        const outcome = await typed(`claim ${key}`, () =>
          this.#records.insertInTransaction(trx, claim, until),
        )
        if (outcome === 'late') return { status: 'in-progress' }
        if (outcome === 'inserted') return await this.#workIn(trx, claim, work)
        const record = await typed(`read ${key}`, () => this.#records.readInTransaction(trx, key))
        if (record) return answerOf<T>(record, print) ?? unfinished(record, key)
      }
      return { status: 'in-progress' }
    } finally {
      endTurn()
    }
  }

  /**
   * For effects outside the database. The key is claimed for `leaseMs` by the database's clock, then the work runs, then its
   * value is stored, if the claim is still the latest. A definite failure is a value to return; a throw gives the claim back, so
   * that the next call runs the work again at once. After a crash that is possible when the lease is over.
   *
   * So the work may run more than once, and never twice at a time unless it outlives its lease. Pass `key` on as the
   * idempotency key of the effect, and `fence`, which rises with each claim, to what can refuse a smaller one.
   * `signal` aborts when the lease is over. Work that ends later, after another call has taken over, changes nothing: it is
   * answered what the record says (the other's value, `replayed`, or `in-progress`).
   *
   * @param o.leaseMs 100 ms to a day; well above what the work takes
   * @throws FlashSaleError `BAD_INPUT` · `DB_BUSY`, `DB_UNAVAILABLE`: the work was not run · `OUTCOME_UNKNOWN`: it was, and its value
   * could not be stored; the claim ends with its lease · `CORRUPT` · whatever `work` throws
   */
  async withLease<T extends Json>(
    key: string,
    fingerprint: string,
    o: { readonly leaseMs: number },
    work: (fence: number, signal: AbortSignal) => Promise<T>,
  ): Promise<Once<T>> {
    const print = checkCall(key, fingerprint, work)
    check.object(o, 'options')
    const leaseMs = check.int(o.leaseMs, 'leaseMs', 100, MAX_LEASE_MS)
    const claim = { key, fingerprint: print, holder: randomUUID(), leaseMs }
    const endTurn = await this.#turns.take(key, performance.now() + this.#lockWaitMs)
    if (!endTurn) return { status: 'in-progress' }
    try {
      for (let round = 0; round < ROUNDS; round++) {
        const startedAt = performance.now() // before the database counts: our lease ends no later than its
        const record = await typed(`claim ${key}`, async () => {
          const found = await this.#records.read(this.#knex, key)
          if (found && (answerOf(found, print) || found.leased)) return found
          if (found) await this.#records.takeOver(this.#knex, claim)
          else await this.#records.insertClaim(this.#knex, claim)
          return this.#records.read(this.#knex, key)
        })
        if (!record) continue
        if (record.holder === claim.holder)
          return await this.#workUnder(
            key,
            record.fence,
            leaseMs - (performance.now() - startedAt),
            work,
          )
        const answer = answerOf<T>(record, print)
        if (answer) return answer
        if (record.leased) return { status: 'in-progress' }
        if (record.fence === 0) throw strayRecord(key)
      }
      return { status: 'in-progress' }
    } finally {
      endTurn()
    }
  }

  /**
   * Deletes records that have not changed for `olderThanMs` and are under no lease, in portions, and returns how many. A
   * call with a purged key runs its work again: keep records longer than anybody may ask, and have a unique key of its
   * own behind whatever must never happen twice.
   */
  async purge(olderThanMs: number): Promise<number> {
    // A minute at least, in case somebody counts in seconds: a week is then ten minutes.
    check.int(olderThanMs, 'olderThanMs', 60_000, Number.MAX_SAFE_INTEGER)
    let purged = 0
    for (;;) {
      const portion = await typed('purge', () => this.#records.purge(this.#knex, olderThanMs))
      if (portion === 0) return purged
      purged += portion
    }
  }

  async #workIn<T extends Json>(
    trx: SqlTransaction,
    claim: Claim,
    work: () => Promise<T>,
  ): Promise<Once<T>> {
    const { key } = claim
    try {
      const result = encode(await work())
      const finish = () => this.#records.finishInTransaction(trx, claim, result)
      if (!(await typed(`finish ${key}`, finish)))
        throw new FlashSaleError('DB_BUSY', `the transaction was lost during the work of ${key}`)
      return { status: 'done', value: decode<T>(result, key), replayed: false }
    } catch (error) {
      // For a caller who swallows the error and commits: there must be no record without a result. Where the
      // transaction is lost this fails or finds nothing, and there is nothing left to remove.
      if (codeOf(error) !== DEADLOCK)
        await this.#records.removeInTransaction(trx, claim).catch(() => {})
      throw error
    }
  }

  async #workUnder<T extends Json>(
    key: string,
    fence: number,
    leftMs: number,
    work: (fence: number, signal: AbortSignal) => Promise<T>,
  ): Promise<Once<T>> {
    const lease = new AbortController()
    const over = () =>
      lease.abort(
        new FlashSaleError('OUTCOME_UNKNOWN', `the lease of ${key} ended before its work`),
      )
    const timer = setTimeout(over, Math.max(0, leftMs))
    let result: string
    try {
      result = encode(await work(fence, lease.signal))
    } catch (error) {
      await this.#records.releaseClaim(this.#knex, key, fence).catch(() => {}) // else it ends with the lease
      throw error
    } finally {
      clearTimeout(timer)
    }
    if (await this.#store(key, fence, result))
      return { status: 'done', value: decode<T>(result, key), replayed: false }
    const record = await typed(`read ${key}`, () => this.#records.read(this.#knex, key))
    // A lost answer to the first try of #store looks like another's work, except for the fence.
    if (record?.result == null) return { status: 'in-progress' }
    return {
      status: 'done',
      value: decode<T>(record.result, key),
      replayed: record.fence !== fence,
    }
  }

  async #store(key: string, fence: number, result: string): Promise<boolean> {
    for (let tries = 0; ; tries++) {
      try {
        return await this.#records.finishClaim(this.#knex, key, fence, result)
      } catch (error) {
        const ms = STORE_AGAIN_MS[tries]
        if (ms === undefined)
          throw new FlashSaleError('OUTCOME_UNKNOWN', `the work of ${key} is done, not stored`, {
            cause: withoutStatement(error),
          })
        await sleep(ms)
      }
    }
  }
}

/** What the record answers to a call with this fingerprint; null while its work is not finished. */
function answerOf<T extends Json>(record: IdempotencyRecord, print: string): Once<T> | null {
  if (record.fingerprint !== print) return { status: 'key-reused' }
  if (record.result === null) return null
  return { status: 'done', value: decode<T>(record.result, record.key), replayed: true }
}

/** An unfinished record that a transaction can see is a lease's. */
function unfinished(record: IdempotencyRecord, key: string): { readonly status: 'in-progress' } {
  if (record.leased) return { status: 'in-progress' }
  throw strayRecord(key)
}

function strayRecord(key: string): FlashSaleError {
  return new FlashSaleError(
    'CORRUPT',
    `the record of ${key} has no result: its work ended the transaction itself, or the key belongs to the other method`,
  )
}

async function typed<T>(doing: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw databaseError(error, doing)
  }
}
