import { randomUUID } from 'node:crypto'
import type { Audit, Json } from '../../core/types.js'
import type { Column } from '../sql/dialect.js'
import type { Tx } from '../sql/tx.js'

const COLUMNS: readonly Column[] = [
  { name: 'id', kind: 'text' },
  { name: 'at', kind: 'int' },
  { name: 'actor', kind: 'text' },
  { name: 'reason', kind: 'text' },
  { name: 'approved_by', kind: 'text' },
  { name: 'act', kind: 'text' },
  { name: 'activity_id', kind: 'text' },
  { name: 'before_value', kind: 'text' },
  { name: 'after_value', kind: 'text' },
]

/**
 * One act of an operator. Its id is made once and outlives repeats of the transaction, so that a repeat after a lost
 * COMMIT finds its own row and does not act twice.
 */
export class Act {
  readonly #id = randomUUID()

  constructor(
    private readonly table: string,
    private readonly what: {
      readonly act: string
      readonly activityId: string | null
      readonly audit: Audit
    },
  ) {}

  /** What the row says came after, when the act is done already; else null. */
  async done(tx: Tx): Promise<{ readonly after: Json } | null> {
    const [row] = await tx.all(`SELECT after_value FROM ${this.table} WHERE id = ?`, [this.#id])
    return row ? { after: JSON.parse(row.after_value as string) as Json } : null
  }

  async record(tx: Tx, now: number, before: Json | object, after: Json | object): Promise<void> {
    const { act, activityId, audit } = this.what
    await tx.insert(this.table, COLUMNS, [
      [
        this.#id,
        now,
        audit.actor,
        audit.reason,
        audit.approvedBy ?? null,
        act,
        activityId,
        JSON.stringify(before),
        JSON.stringify(after),
      ],
    ])
  }
}
