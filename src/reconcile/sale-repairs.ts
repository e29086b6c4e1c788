import type { OrderBook } from '../core/order-book.js'
import type { ReconcilableStock } from '../core/reconcile.js'
import { movesOf } from '../core/standing.js'
import type { Finding, Repaired } from './findings.js'
import { reservationOf } from './moves.js'
import type { RepairParts } from './repairs.js'

type Status = Repaired['status']

/** How long a batch is kept from the relay while it is settled here, and how many are taken. */
const TAKE = { leaseMs: 1_000, limit: 100 }

/** Repairs of what is about no single number. Each looks first whether it still stands, and may be repeated. */
export class SaleRepairs {
  constructor(
    private readonly parts: Pick<RepairParts, 'stock' | 'orders' | 'control'>,
    private readonly o: {
      readonly mayWrite: () => Promise<void>
      readonly manual: (finding: Finding) => Promise<Status>
    },
  ) {}

  repair(f: Finding): Promise<Status> {
    switch (f.repair) {
      case 'top-up':
        return this.#topUp(f)
      case 'stop':
        return this.#stop(f)
      case 'settle':
        return this.#settle(f)
      case 'strike':
        return this.#strike(f)
      default:
        return this.o.manual(f)
    }
  }

  async #topUp(f: Finding): Promise<Status> {
    const { activityId, skuId, subject } = f
    if (skuId === null) return this.o.manual(f)
    const ref = { activityId, skuId }
    const booked = await this.parts.orders.topUps(ref)
    const operation = booked?.operations.find((t) => t.operationId === subject)
    const applied = (await this.parts.stock.topUps(ref)).some((t) => t.operationId === subject)
    if (!operation || applied) return 'gone'
    await this.o.mayWrite()
    await this.parts.stock.topUp(ref, Number(operation.units), operation.operationId)
    return 'repaired'
  }

  async #stop(f: Finding): Promise<Status> {
    const { control, stock } = this.parts
    const { activityId, subject } = f
    if (!control || subject === null) return this.o.manual(f)
    const { state, revision } = await control.read(activityId)
    if (state === 'open') return 'gone'
    if ((await stock.numbers({ activityId, skuId: subject })).state === 'stopped') return 'gone'
    await this.o.mayWrite()
    await stock.control(activityId, 'stopped', revision)
    return 'repaired'
  }

  /** As a relay does it: CLOSED rows for what has none, Redis told of all, and the batch is owed no longer. */
  async #settle(f: Finding): Promise<Status> {
    const { stock } = this.parts
    const isThere = async () => {
      const overdue = await stock.overdue(f.activityId, { lateMs: 0 })
      return overdue.some((b) => b.batchId === f.subject)
    }
    if (!(await isThere())) return 'gone'
    await this.o.mayWrite()
    for (const owed of await stock.takeOwed(f.activityId, TAKE))
      if (owed.due === 'close') await this.#close(owed.batch)
    return (await isThere()) ? 'later' : 'repaired'
  }

  async #close(batch: Parameters<ReconcilableStock['delivered']>[0]): Promise<void> {
    const { stock, orders } = this.parts
    const reservations = batch.reservations.map(reservationOf)
    await this.o.mayWrite()
    const verdicts: Awaited<ReturnType<OrderBook['closeUnbooked']>> = await orders.closeUnbooked(
      reservations,
      'lost',
    )
    await this.o.mayWrite()
    await stock.move(movesOf(verdicts, reservations))
    await this.o.mayWrite()
    await stock.delivered(batch, 'settled')
  }

  async #strike(f: Finding): Promise<Status> {
    const { activityId, skuId, subject } = f
    if (skuId === null || subject === null) return this.o.manual(f)
    const all = { olderThanMs: 0, limit: 1_000 }
    const owed = await this.parts.orders.owedReleases({ activityId, skuId }, all)
    if (!owed.includes(subject)) return 'gone'
    await this.o.mayWrite()
    await this.parts.orders.released([subject])
    return 'repaired'
  }
}
