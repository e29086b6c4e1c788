import * as check from '../../core/check.js'
import type { FindingLog, LoggedFinding } from '../../core/reconcile.js'
import { Database, type DatabaseOptions } from '../sql/database.js'
import { type Column, exact } from '../sql/dialect.js'
import type { Row } from '../sql/statements.js'
import type { Tx } from '../sql/tx.js'

const text = (name: string): Column => ({ name, kind: 'text' })
const int = (name: string): Column => ({ name, kind: 'int' })
const COLUMNS: readonly Column[] = [
  text('activity_id'),
  text('finding_id'),
  text('kind'),
  text('sku_id'),
  text('order_no'),
  int('units'),
  text('evidence'),
  text('repair'),
  text('run'),
  int('first_seen_at'),
  int('last_seen_at'),
]

const STATUSES = ['repaired', 'gone', 'manual', 'later'] as const

type Outcome = Parameters<FindingLog['settled']>[1][number]

/**
 * Findings in a table, one row each: when it was first and last seen, in which run, and what became of it. One that comes
 * back after it was repaired is open again. Throws what `KnexOrderBook` throws.
 */
export class KnexFindingLog implements FindingLog {
  readonly #database: Database

  constructor(o: DatabaseOptions) {
    this.#database = new Database(o)
  }

  /** At most 10,000 findings, in one transaction. */
  async seen(
    run: Parameters<FindingLog['seen']>[0],
    findings: readonly LoggedFinding[],
  ): Promise<void> {
    check.object(run, 'run')
    const activityId = check.keyId(run.activityId, 'run.activityId')
    const name = check.id(run.run, 'run.run')
    check.array(findings, 'findings')
    const checked = [...new Map(findings.map((f) => [f.id, findingOf(f, activityId)])).values()]
    const { finding } = this.#database.tables
    await this.#database.write(async (tx) => {
      const now = await tx.now()
      const ids = checked.map((f) => f.id)
      const known = await this.#known(tx, activityId, ids)
      const fresh = checked.filter((f) => !known.has(f.id))
      await tx.insert(
        finding,
        COLUMNS,
        fresh.map((f) => [...valuesOf(f), name, now, now]),
      )
      await tx.runIn(
        `UPDATE ${finding} SET run = ?, last_seen_at = ?, outcome = NULL, repaired_at = NULL WHERE activity_id = ? AND finding_id IN (??)`,
        [name, now, activityId],
        [...known.keys()].sort(),
      )
      for (const f of checked) {
        const row = known.get(f.id)
        if (row && (exact(row.units, 'units') !== f.units || row.evidence !== f.evidence))
          await tx.run(
            `UPDATE ${finding} SET units = ?, evidence = ?, repair = ? WHERE activity_id = ? AND finding_id = ?`,
            [f.units, f.evidence, f.repair, activityId, f.id],
          )
      }
      if (run.complete)
        await tx.run(
          `UPDATE ${finding} SET outcome = 'gone', repaired_at = ? WHERE activity_id = ? AND run <> ? AND repaired_at IS NULL`,
          [now, activityId, name],
        )
    })
  }

  async settled(activityId: string, outcomes: readonly Outcome[]): Promise<void> {
    const id = check.keyId(activityId, 'activityId')
    check.array(outcomes, 'outcomes')
    const byStatus = { repaired: [], gone: [], manual: [], later: [] } as Record<
      Outcome['status'],
      string[]
    >
    for (const o of outcomes)
      byStatus[check.oneOf(o.status, 'status', STATUSES)].push(check.text(o.id, 'id', 200))
    const { finding } = this.#database.tables
    await this.#database.write(async (tx) => {
      const now = await tx.now()
      for (const status of ['gone', 'manual', 'repaired'] as const)
        await tx.runIn(
          `UPDATE ${finding} SET outcome = ?, repaired_at = ? WHERE activity_id = ? AND repaired_at IS NULL AND finding_id IN (??)`,
          [status, status === 'manual' ? null : now, id],
          byStatus[status].sort(),
        )
    })
  }

  async #known(
    tx: Tx,
    activityId: string,
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, Row>> {
    const rows = await tx.allIn(
      `SELECT finding_id, activity_id, units, evidence FROM ${this.#database.tables.finding} WHERE finding_id IN (??)`,
      ids,
    )
    const mine = rows.filter((row) => row.activity_id === activityId)
    return new Map(mine.map((row) => [row.finding_id as string, row]))
  }
}

function findingOf(f: LoggedFinding, activityId: string): LoggedFinding {
  check.object(f, 'finding')
  check.text(f.id, 'finding.id', 200)
  check.text(f.kind, 'finding.kind', 64)
  check.text(f.repair, 'finding.repair', 64)
  check.int(f.units, 'finding.units', 0, Number.MAX_SAFE_INTEGER)
  if (f.activityId !== activityId)
    check.fail('BAD_INPUT', 'finding.activityId', activityId, f.activityId)
  if (f.skuId !== null) check.keyId(f.skuId, 'finding.skuId')
  if (f.orderNo !== null) check.id(f.orderNo, 'finding.orderNo')
  return { ...f, evidence: check.text(f.evidence, 'finding.evidence', 10_000) }
}

function valuesOf(f: LoggedFinding): readonly unknown[] {
  return [f.activityId, f.id, f.kind, f.skuId, f.orderNo, f.units, f.evidence, f.repair]
}
