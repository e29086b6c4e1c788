import { FlashSaleError } from '../../core/errors.js'
import type { OrderBook, OwedRelease } from '../../core/order-book.js'
import type { Reservation } from '../../core/types.js'
import type { CallFault } from './process.js'
import type { SimDatabase } from './sim-database.js'

export const BOOK_FAULTS: readonly CallFault<unknown>[] = [
  { name: 'committed, the answer is lost', done: 1, fails: () => unknown('OUTCOME_UNKNOWN') },
  { name: 'rolled back, the answer is lost', done: 0, fails: () => unknown('OUTCOME_UNKNOWN') },
  { name: 'refused', done: 0, fails: () => unknown('DB_UNAVAILABLE') },
]

const unknown = (code: 'OUTCOME_UNKNOWN' | 'DB_UNAVAILABLE') =>
  new FlashSaleError(code, 'the simulated database did not answer')

/** A call that writes: an event, with the label of the numbers it is about. */
export type Write = <T>(what: string, orderNos: readonly string[], act: () => T) => Promise<T>

/** The order book of one process on the shared database. */
export function simOrders(db: SimDatabase, write: Write, now: () => number): OrderBook {
  const numbers = (reservations: readonly Reservation[]) => reservations.map((r) => r.orderNo)
  const operations = () => [...db.topUps].map(([operationId, units]) => ({ operationId, units }))
  return {
    prepare: async () => [{ ...db.numbers(), topUps: operations() }],
    confirm: (rs) => write('confirm', numbers(rs), () => db.confirm(rs)),
    closeUnbooked: (rs, reason) =>
      write(`close (${reason})`, numbers(rs), () => db.closeUnbooked(rs, reason)),
    closeUnpaid: (nos, reason) =>
      write(`close (${reason})`, nos, () => db.closeUnpaid(nos, reason)),
    async buy() {
      throw new FlashSaleError('BAD_INPUT', 'the simulated database does not know strong mode')
    },
    find: async (nos) => nos.flatMap((no) => db.rows.get(no) ?? []),
    async findByBuyer(_, userId) {
      const own = [...db.rows.values()].filter((row) => row.userId === userId)
      return own.find((row) => row.status !== 'closed') ?? own.at(-1) ?? null
    },
    numbers: async () => db.numbers(),
    async *snapshot(_, after = '') {
      const rows = [...db.rows.values()].sort((a, b) => (a.orderNo < b.orderNo ? -1 : 1))
      yield* rows.filter((row) => row.orderNo > after)
    },
    topUps: async () => ({ total: db.units, operations: operations() }),
    topUp: (_, units, operationId) =>
      write(`${units < 0 ? '' : '+'}${units} units (${operationId})`, [], () =>
        db.topUp(units, operationId),
      ),
    async takeReleases({ limit, leaseMs }) {
      const due = [...db.owed.values()].filter((o) => o.dueAt <= now()).slice(0, limit)
      return due.map((o): OwedRelease => {
        o.dueAt = now() + leaseMs
        const { reservation, reason } = o
        return { id: reservation.orderNo, lease: '', reservation, reason }
      })
    },
    async owedReleases(_, { olderThanMs, limit }) {
      const old = [...db.owed.values()].filter((o) => o.dueAt + olderThanMs <= now())
      return old.slice(0, limit).map((o) => o.reservation.orderNo)
    },
    async released(nos) {
      for (const no of nos) db.owed.delete(no)
    },
    async retryReleases() {
      return []
    },
    async addManualTask({ kind, ref }) {
      db.tasks.push(`${kind} ${ref}`)
    },
  }
}
