import type { OwedRelease } from '../../core/ports.js'
import type { Reservation } from '../../core/types.js'
import type { Database } from '../sql/database.js'
import type { Column } from '../sql/dialect.js'
import type { Tx } from '../sql/tx.js'
import { bareReservation } from './rows.js'

export const RELEASE_TOPIC = 'seckill.release'
/** Whoever closed an order tells Redis at once; only if that failed is the row taken up, after this. */
const FIRST_AFTER_MS = 15_000

const COLUMNS: readonly Column[] = [
  { name: 'biz_no', kind: 'text' },
  { name: 'topic', kind: 'text' },
  { name: 'payload', kind: 'text' },
  { name: 'next_retry_time', kind: 'int' },
  { name: 'created_at', kind: 'int' },
]

const bizNoOf = (orderNo: string) => `release:${orderNo}`

/** Records, in the transaction that closes orders, that Redis has to get their units back. */
export async function oweReleases(
  tx: Tx,
  table: string,
  closed: readonly { readonly order: Reservation; readonly reason: string }[],
  now: number,
): Promise<void> {
  if (closed.length === 0) return
  const rows = closed.map(({ order, reason }) => [
    bizNoOf(order.orderNo),
    RELEASE_TOPIC,
    JSON.stringify({ reservation: bareReservation(order), reason }),
    now + FIRST_AFTER_MS,
    now,
  ])
  await tx.insert(table, COLUMNS, rows)
}

/** Takes what is due, and puts its next time `leaseMs` ahead by the database's clock: the lease. */
export function takeReleases(
  database: Database,
  o: { readonly limit: number; readonly leaseMs: number },
): Promise<readonly OwedRelease[]> {
  const { message } = database.tables
  return database.write(async (tx) => {
    const now = await tx.now()
    const rows = await tx.all(
      `SELECT id, biz_no, payload FROM ${message} WHERE status = 0 AND next_retry_time <= ? AND topic = ? ORDER BY next_retry_time, id LIMIT ${o.limit}${tx.dialect.skipLocked}`,
      [now, RELEASE_TOPIC],
    )
    if (rows.length === 0) return []
    await tx.runIn(
      `UPDATE ${message} SET next_retry_time = ?, retry_count = retry_count + 1 WHERE biz_no IN (??)`,
      [now + o.leaseMs],
      rows.map((row) => row.biz_no as string),
    )
    return rows.map((row) => {
      const { reservation, reason } = JSON.parse(row.payload as string) as Omit<OwedRelease, 'id'>
      return { id: row.biz_no as string, reservation, reason }
    })
  })
}

export async function released(database: Database, orderNos: readonly string[]): Promise<void> {
  if (orderNos.length === 0) return
  await database.write((tx) =>
    tx.runIn(
      `UPDATE ${database.tables.message} SET status = 1 WHERE status = 0 AND biz_no IN (??)`,
      [],
      orderNos.map(bizNoOf),
    ),
  )
}
