import * as check from '../../core/check.js'
import type { Fence, Fences } from '../../core/reconcile.js'
import { Database, type DatabaseOptions } from '../sql/database.js'
import { exact } from '../sql/dialect.js'
import type { Row } from '../sql/statements.js'

/** {@link Fences} in a table, one row an activity. Throws what `KnexOrderBook` throws. */
export class KnexFences implements Fences {
  readonly #database: Database

  constructor(o: DatabaseOptions) {
    this.#database = new Database(o)
  }

  async read(activityId: string): Promise<Fence> {
    const id = check.keyId(activityId, 'activityId')
    const { fence } = this.#database.tables
    const [row] = await this.#database.read((on) =>
      on.all(`SELECT epoch, seq FROM ${fence} WHERE activity_id = ?`, [id]),
    )
    return fenceOf(row)
  }

  async raise(activityId: string, to: Fence): Promise<Fence> {
    const id = check.keyId(activityId, 'activityId')
    check.object(to, 'fence')
    const epoch = check.int(to.epoch, 'fence.epoch', 0, 1e15)
    const seq = check.int(to.seq, 'fence.seq', 0, 1e15)
    const { fence } = this.#database.tables
    return this.#database.write(async (tx) => {
      const [row] = await tx.all(
        `SELECT epoch, seq FROM ${fence} WHERE activity_id = ?${tx.dialect.forUpdate}`,
        [id],
      )
      const kept = fenceOf(row)
      if (kept.epoch > epoch || (kept.epoch === epoch && kept.seq >= seq)) return kept
      // Two who come first meet in the primary key, and the later repeats and finds the row.
      await tx.run(
        row
          ? `UPDATE ${fence} SET epoch = ?, seq = ?, updated_at = ${tx.dialect.now} WHERE activity_id = ?`
          : `INSERT INTO ${fence} (epoch, seq, updated_at, activity_id) VALUES (?, ?, ${tx.dialect.now}, ?)`,
        [epoch, seq, id],
      )
      return { epoch, seq }
    })
  }
}

function fenceOf(row: Row | undefined): Fence {
  if (!row) return { epoch: 0, seq: 0 }
  return { epoch: exact(row.epoch, 'epoch'), seq: exact(row.seq, 'seq') }
}
