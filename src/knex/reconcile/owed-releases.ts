import type { SkuRef } from '../../core/types.js'
import { DUE, OUR_NUMBERS, OUR_TOPICS, PARKED } from '../outbox/tables.js'
import type { Database } from '../sql/database.js'

const PAGE = 1_000

/**
 * Reads only, so that a look leases nothing. First the numbers, then whose they are: a join is planned by what the server
 * knows of its tables, and in a burst that is from when they were small. Then it compared every order with every message.
 */
export function owedReleases(
  database: Database,
  { activityId, skuId }: SkuRef,
  o: { readonly olderThanMs: number; readonly limit: number },
): Promise<readonly string[]> {
  const { message, order } = database.tables
  return database.read(async (on) => {
    const found: string[] = []
    for (let last: unknown = 0; found.length < o.limit; ) {
      const page = await on.all(
        `SELECT id, biz_no FROM ${message} WHERE topic = ? AND status IN (${DUE}, ${PARKED})
         AND created_at <= ${on.dialect.now} - ? AND id > ? ORDER BY id LIMIT ${PAGE}`,
        [`${OUR_TOPICS}release`, o.olderThanMs, last],
      )
      const numbers = page.map((row) => String(row.biz_no).slice(OUR_NUMBERS.length))
      const rows = await on.allIn(
        `SELECT order_no, activity_id, sku_id FROM ${order} WHERE order_no IN (??)`,
        numbers,
      )
      const mine = rows.filter((row) => row.activity_id === activityId && row.sku_id === skuId)
      const known = new Set(mine.map((row) => row.order_no))
      found.push(...numbers.filter((no) => known.has(no)))
      if (page.length < PAGE) break
      last = page.at(-1)?.id
    }
    return found.slice(0, o.limit)
  })
}
