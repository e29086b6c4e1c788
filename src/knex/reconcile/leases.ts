import { randomUUID } from 'node:crypto'
import * as check from '../../core/check.js'
import type { Lease, Leases } from '../../core/ports.js'
import { Database, type DatabaseOptions } from '../sql/database.js'
import { exact } from '../sql/dialect.js'

const DAY_MS = 86_400_000

/**
 * Leases in a table, one row a name, by the database's clock. A row is never deleted, so the fence rises for ever.
 * Throws what `KnexOrderBook` throws.
 */
export class KnexLeases implements Leases {
  readonly #database: Database

  constructor(o: DatabaseOptions) {
    this.#database = new Database(o)
  }

  /** `name` 1 to 200 characters, `leaseMs` 1 to 86,400,000. Does not wait for the holder. */
  async take(name: string, leaseMs: number): Promise<Lease | null> {
    check.text(name, 'name', 200)
    const forMs = leaseOf(leaseMs)
    const fence = await this.#take(name, forMs, randomUUID())
    if (fence === null) return null
    return {
      fence,
      renew: async (ms) => this.#renew(name, fence, leaseOf(ms)),
      release: () => this.#release(name, fence),
    }
  }

  /** `holder` is made once for each call, so that a repeat after a lost COMMIT finds what it took. */
  #take(name: string, leaseMs: number, holder: string): Promise<number | null> {
    const table = this.#database.tables.lease
    return this.#database.write(async (tx) => {
      const [row] = await tx.all(
        `SELECT holder, fence, until_at FROM ${table} WHERE name = ?${tx.dialect.forUpdate}`,
        [name],
      )
      const now = await tx.now()
      const until = now + leaseMs
      if (!row) {
        // Two who come first meet in the primary key, and the later repeats and finds the row.
        await tx.run(`INSERT INTO ${table} (name, holder, fence, until_at) VALUES (?, ?, 1, ?)`, [
          name,
          holder,
          until,
        ])
        return 1
      }
      const fence = exact(row.fence, 'fence')
      if (row.holder === holder) return fence
      if (exact(row.until_at, 'until_at') > now) return null
      const affected = await tx.run(
        `UPDATE ${table} SET holder = ?, fence = fence + 1, until_at = ? WHERE name = ? AND fence = ?`,
        [holder, until, name, fence],
      )
      if (affected !== 1) tx.conflict('the lease was taken meanwhile')
      return fence + 1
    })
  }

  /** A lease that ran out is lost, also if nobody has taken it since. */
  #renew(name: string, fence: number, leaseMs: number): Promise<boolean> {
    return this.#database.write(async (tx) => {
      const { now } = tx.dialect
      const affected = await tx.run(
        `UPDATE ${this.#database.tables.lease} SET until_at = ${now} + ? WHERE name = ? AND fence = ? AND until_at > ${now}`,
        [leaseMs, name, fence],
      )
      return affected === 1
    })
  }

  async #release(name: string, fence: number): Promise<void> {
    await this.#database.write((tx) =>
      tx.run(
        `UPDATE ${this.#database.tables.lease} SET until_at = 0 WHERE name = ? AND fence = ?`,
        [name, fence],
      ),
    )
  }
}

function leaseOf(leaseMs: number): number {
  return check.int(leaseMs, 'leaseMs', 1, DAY_MS)
}
