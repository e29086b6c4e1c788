import * as check from '../../core/check.js'
import { FlashSaleError } from '../../core/errors.js'
import type { ActivityStore } from '../../core/ports.js'
import type { Activity } from '../../core/types.js'
import { Database, type DatabaseOptions } from '../sql/database.js'

/** Activities in a table of ours, for hosts without one of their own. Throws what `KnexOrderBook` throws. */
export class KnexActivityStore implements ActivityStore {
  readonly #database: Database

  constructor(o: DatabaseOptions) {
    this.#database = new Database(o)
  }

  /** Throws `CORRUPT` when the stored terms are not those of an activity. */
  async load(activityId: string): Promise<Activity | null> {
    const id = check.keyId(activityId, 'activityId')
    const [row] = await this.#database.read((on) =>
      on.all(`SELECT terms FROM ${this.#database.tables.terms} WHERE activity_id = ?`, [id]),
    )
    if (!row) return null
    try {
      return check.activity(JSON.parse(row.terms as string) as Activity)
    } catch (cause) {
      throw new FlashSaleError('CORRUPT', `the terms of ${id} cannot be read`, { cause })
    }
  }

  async live(): Promise<readonly string[]> {
    const rows = await this.#database.read((on) =>
      on.all(
        `SELECT activity_id FROM ${this.#database.tables.terms} WHERE live = 1 ORDER BY activity_id`,
      ),
    )
    return rows.map((row) => row.activity_id as string)
  }

  /** Writes the activity, as a live one; the terms of an earlier version are overwritten. */
  async save(activity: Activity): Promise<void> {
    const checked = check.activity(activity)
    const { terms } = this.#database.tables
    await this.#database.write(async (tx) => {
      const now = await tx.now()
      const values = [checked.version, JSON.stringify(checked), now, checked.activityId]
      const there = await tx.all(`SELECT version FROM ${terms} WHERE activity_id = ?`, [
        checked.activityId,
      ])
      await tx.run(
        there.length > 0
          ? `UPDATE ${terms} SET version = ?, terms = ?, live = 1, updated_at = ? WHERE activity_id = ?`
          : `INSERT INTO ${terms} (version, terms, live, updated_at, activity_id) VALUES (?, ?, 1, ?, ?)`,
        values,
      )
    })
  }

  /** Takes the activity out of {@link live}: its reservations are all settled. False when there is none. */
  async retire(activityId: string): Promise<boolean> {
    const id = check.keyId(activityId, 'activityId')
    const { terms } = this.#database.tables
    return this.#database.write(async (tx) => {
      const there = await tx.all(`SELECT version FROM ${terms} WHERE activity_id = ?`, [id])
      if (there.length === 0) return false
      await tx.run(`UPDATE ${terms} SET live = 0, updated_at = ? WHERE activity_id = ?`, [
        await tx.now(),
        id,
      ])
      return true
    })
  }
}
