import type {
  ActivityControl,
  ActivityStore,
  Background,
  FlashSaleEvents,
  Ledger,
  OrderBook,
  Queue,
  ReconcilableStock,
  RedisLike,
} from '../../core/ports.js'
import type { Audit, OrderResult, SaleState, SkuRef } from '../../core/types.js'

/** What one process of the host is given: clients of the simulated services. */
export interface SimParts {
  readonly redis: RedisLike
  readonly queue: Queue
  readonly orders: OrderBook
  readonly activities: ActivityStore
  readonly control: ActivityControl
  readonly events: FlashSaleEvents
}

export interface SimDeduct extends SkuRef {
  readonly userId: string
  readonly quantity: number
  readonly version: string
  readonly orderNo: string
}

/** What the simulator drives of one process of the host. */
export interface SimSale {
  readonly stock: Pick<Ledger, 'move'> & {
    deduct(request: SimDeduct): Promise<{ readonly status: string }>
  }
  warmUp(activityId: string, audit: Audit): Promise<unknown>
  control(activityId: string, to: SaleState, audit: Audit): Promise<unknown>
  /** Begins to consume the queue. */
  consume(): Promise<void>
  /** One round of the relay. */
  relay(): Promise<void>
  /** One inspection, and the repair of what it finds. */
  reconcile(): Promise<void>
  rebuild(
    activityId: string,
    audit: Audit,
    o: { readonly waitMs: number; readonly reopen: boolean },
  ): Promise<unknown>
  result(q: SkuRef & { readonly userId: string; readonly orderNo: string }): Promise<OrderResult>
}

/** Wires the host's pipeline in one process; called again after each crash. Does no I/O. */
export type OpenSale = (parts: SimParts) => SimSale

interface Classes<Finding> {
  readonly FlashSale: new (
    o: SimParts & { readonly refreshMs: number },
  ) => Omit<SimSale, 'consume' | 'relay' | 'reconcile' | 'stock'> & {
    readonly stock: ReconcilableStock & SimSale['stock']
    worker(o: { readonly ordersPerSecond: number; readonly database: null }): Background
    relay(): { run(): Promise<void> }
  }
  readonly TriangleReconciler: new (o: {
    readonly stock: ReconcilableStock
    readonly orders: OrderBook
    readonly activities: ActivityStore
    readonly control: ActivityControl
  }) => {
    inspect(activityId: string): Promise<{ readonly findings: readonly Finding[] }>
    repair(findings: readonly Finding[]): Promise<unknown>
  }
}

/** The pipeline of this package: `flashSaleIn({ FlashSale, TriangleReconciler })`. */
export function flashSaleIn<Finding>({
  FlashSale,
  TriangleReconciler,
}: Classes<Finding>): OpenSale {
  return (parts) => {
    const sale = new FlashSale({ ...parts, refreshMs: 60_000 })
    const worker = sale.worker({ ordersPerSecond: 1_000_000, database: null })
    const relay = sale.relay()
    const { orders, activities, control } = parts
    const reconciler = new TriangleReconciler({ stock: sale.stock, orders, activities, control })
    return {
      stock: sale.stock,
      warmUp: (id, audit) => sale.warmUp(id, audit),
      control: (id, to, audit) => sale.control(id, to, audit),
      consume: () => worker.start(),
      relay: () => relay.run(),
      async reconcile() {
        for (const id of await activities.live()) {
          const { findings } = await reconciler.inspect(id)
          await reconciler.repair(findings)
        }
      },
      rebuild: (id, audit, o) => sale.rebuild(id, audit, o),
      result: (q) => sale.result(q),
    }
  }
}
