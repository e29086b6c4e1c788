import { randomUUID } from 'node:crypto'
import type { LeasedMessage } from '../../core/outbox.js'
import { BACKOFF_MS, MAX_TRIES } from '../../core/tries.js'
import type { Database } from '../sql/database.js'
import { exact } from '../sql/dialect.js'
import { StatementFailed } from '../sql/failures.js'
import type { Row } from '../sql/statements.js'
import type { Tx } from '../sql/tx.js'
import { type Parking, park } from './parked.js'
import { DUE, PARKED, SENT } from './tables.js'

/** The pause after a try, by the number of tries so far. */
const PAUSE = `CASE retry_count ${BACKOFF_MS.slice(0, -1)
  .map((ms, i) => `WHEN ${i + 1} THEN ${ms}`)
  .join(' ')} ELSE ${BACKOFF_MS.at(-1)} END`

/** What must be known of a message to speak for it. */
type Held = Pick<LeasedMessage, 'bizNo' | 'lease'>

/**
 * The rows of the outbox and who holds them. A taking is named by a word of its own in the row, which stays there until
 * the next: whatever its holder says later is compared with it, and a unit repeated after a lost COMMIT knows its own.
 */
export class Messages {
  readonly #table: string
  /** Until the server says that it does not know the words: MariaDB before 10.6. */
  #skipsLocked = true

  constructor(private readonly database: Database) {
    this.#table = database.tables.message
  }

  take(o: {
    readonly topic: string
    readonly limit: number
    readonly leaseMs: number
  }): Promise<readonly LeasedMessage[]> {
    const lease = randomUUID()
    return this.database.write(async (tx) => {
      const now = await tx.now()
      const due = await this.#due(tx, o.topic, o.limit, now)
      if (due.length === 0) return []
      // Where nothing was locked in between, others may have been faster: only what is still due becomes mine.
      await tx.runIn(
        `UPDATE ${this.#table} SET lease = ?, next_retry_time = ?, retry_count = retry_count + 1 WHERE status = ${DUE} AND next_retry_time <= ? AND biz_no IN (??)`,
        [lease, now + o.leaseMs, now],
        due,
      )
      const rows = await tx.allIn(
        `SELECT biz_no, topic, payload, retry_count, lease FROM ${this.#table} WHERE biz_no IN (??)`,
        due,
      )
      const mine = new Map(
        rows.filter((row) => row.lease === lease).map((row) => [row.biz_no as string, row]),
      )
      if (mine.size === 0) tx.conflict('others have taken all that was due')
      return due.flatMap((bizNo) => leased(mine.get(bizNo)))
    })
  }

  renew<M extends Held>(messages: readonly M[], leaseMs: number): Promise<readonly M[]> {
    return this.#whenHeld(messages, async (tx, rows) => {
      await this.#set(tx, rows, `next_retry_time = ${tx.dialect.now} + ${leaseMs}`)
      return messages.filter((message) => rows.has(message.bizNo))
    })
  }

  async done(messages: readonly Held[]): Promise<void> {
    await this.#whenHeld(messages, async (tx, rows) => {
      await this.#set(tx, rows, `status = ${SENT}, next_retry_time = ${tx.dialect.now}`)
      return []
    })
  }

  /** Returns what is parked by it: all, or what has used up its tries. The rest is due again after its pause. */
  giveBack<F extends { readonly message: Held; readonly error: string }>(
    failed: readonly F[],
    o: { readonly park: 'all' | 'spent' },
  ): Promise<readonly F[]> {
    const messages = failed.map((f) => f.message)
    return this.#whenHeld(messages, async (tx, rows, parkedBefore) => {
      const parked = new Set(parkedBefore)
      const parking: Parking[] = []
      for (const { message, error } of failed) {
        const row = rows.get(message.bizNo)
        const tries = exact(row?.retry_count ?? 0, 'retry_count')
        if (!row || (o.park === 'spent' && tries < MAX_TRIES)) continue
        parking.push({ bizNo: message.bizNo, topic: row.topic as string, tries, error })
        parked.add(message.bizNo)
        rows.delete(message.bizNo)
      }
      await park(tx, this.database.tables, parking)
      await this.#set(tx, rows, `next_retry_time = ${tx.dialect.now} + ${PAUSE}`)
      return failed.filter((f) => parked.has(f.message.bizNo))
    })
  }

  async #set(tx: Tx, rows: ReadonlyMap<string, Row>, assignments: string): Promise<void> {
    await tx.runIn(
      `UPDATE ${this.#table} SET ${assignments} WHERE biz_no IN (??)`,
      [],
      [...rows.keys()],
    )
  }

  /**
   * Runs `work` on the rows that are still under the lease they were taken with, locked; and with the numbers that this
   * very unit parked before the answer to its COMMIT was lost.
   */
  #whenHeld<T>(
    messages: readonly Held[],
    work: (
      tx: Tx,
      rows: Map<string, Row>,
      parkedBefore: readonly string[],
    ) => Promise<readonly T[]>,
  ): Promise<readonly T[]> {
    if (messages.length === 0) return Promise.resolve([])
    const leases = new Map(messages.map(({ bizNo, lease }) => [bizNo, lease]))
    return this.database.write(async (tx) => {
      const found = await tx.allIn(
        `SELECT biz_no, topic, lease, status, retry_count FROM ${this.#table} WHERE biz_no IN (??)${tx.dialect.forUpdate}`,
        [...leases.keys()].sort(),
      )
      const rows = new Map<string, Row>()
      const parkedBefore: string[] = []
      for (const row of found) {
        const bizNo = row.biz_no as string
        if (row.lease !== leases.get(bizNo)) continue
        if (Number(row.status) === DUE) rows.set(bizNo, row)
        else if (Number(row.status) === PARKED) parkedBefore.push(bizNo)
      }
      return work(tx, rows, parkedBefore)
    })
  }

  /** Numbers of what is due: locked, without those that others have locked, where the database can do that. */
  async #due(tx: Tx, topic: string, limit: number, now: number): Promise<readonly string[]> {
    const sql = `SELECT biz_no FROM ${this.#table} WHERE topic = ? AND status = ${DUE} AND next_retry_time <= ? ORDER BY next_retry_time, id LIMIT ${limit}`
    const numbers = (rows: readonly Row[]) => rows.map((row) => row.biz_no as string)
    if (this.#skipsLocked)
      try {
        return numbers(await tx.all(sql + tx.dialect.skipLocked, [topic, now]))
      } catch (error) {
        if (!isParseError(error)) throw error
        this.#skipsLocked = false // MySQL's family only, where the transaction lives on
      }
    return numbers(await tx.all(sql, [topic, now]))
  }
}

const ER_PARSE_ERROR = 1064

function isParseError(error: unknown): boolean {
  const cause = error instanceof StatementFailed ? error.cause : undefined
  return (cause as { readonly errno?: unknown } | undefined)?.errno === ER_PARSE_ERROR
}

function leased(row: Row | undefined): readonly LeasedMessage[] {
  if (!row) return []
  return [
    {
      bizNo: row.biz_no as string,
      topic: row.topic as string,
      payload: row.payload as string,
      attempt: exact(row.retry_count, 'retry_count'),
      lease: row.lease as string,
    },
  ]
}
