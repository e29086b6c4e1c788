import type { SkuRef } from '../../core/types.js'
import { OUR_NUMBERS, OUR_TOPICS, SENT } from '../outbox/tables.js'
import type { Database } from '../sql/database.js'

/** Reads only, so that a look leases nothing. */
export async function owedReleases(
  database: Database,
  ref: SkuRef,
  o: { readonly olderThanMs: number; readonly limit: number },
): Promise<readonly string[]> {
  const { message, order } = database.tables
  const rows = await database.read((on) =>
    on.all(
      `SELECT o.order_no FROM ${message} m JOIN ${order} o ON o.order_no = SUBSTR(m.biz_no, ${OUR_NUMBERS.length + 1})
       WHERE m.topic = ? AND m.status <> ${SENT} AND m.created_at <= ${on.dialect.now} - ?
       AND o.activity_id = ? AND o.sku_id = ? ORDER BY m.id LIMIT ${o.limit}`,
      [`${OUR_TOPICS}release`, o.olderThanMs, ref.activityId, ref.skuId],
    ),
  )
  return rows.map((row) => row.order_no as string)
}
