import type { Tx } from '../sql/tx.js'

/**
 * Those of the activities whose durable row says open, share-locked: a stop then waits for the transactions that are on
 * their way, and none that follows sees it open.
 */
export async function openActivities(
  tx: Tx,
  table: string,
  activityIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await tx.allIn(
    `SELECT activity_id FROM ${table} WHERE state = 'open' AND activity_id IN (??)${tx.dialect.forShare}`,
    activityIds,
  )
  return new Set(rows.map((row) => row.activity_id as string))
}
