import type { OrderBook } from '../../core/order-book.js'
import type { PaymentBook, PaymentNotice, PaymentProvider } from '../../core/payment.js'
import type {
  ActivityControl,
  ActivityStore,
  Background,
  FlashSaleEvents,
  Leases,
  RedisLike,
} from '../../core/ports.js'
import type { Queue } from '../../core/queue.js'
import type { Fences, Ledger, PaymentRecords, ReconcilableStock } from '../../core/reconcile.js'
import type { Audit, OrderResult, SaleState, SkuRef, Submitted } from '../../core/types.js'

/** What one process of the host is given: clients of the simulated services. */
export interface SimParts {
  readonly redis: RedisLike
  readonly queue: Queue
  readonly orders: OrderBook
  readonly activities: ActivityStore
  readonly control: ActivityControl
  readonly events: FlashSaleEvents
  readonly fences: Fences
  readonly leases: Leases
  readonly payments: PaymentBook
  /** Two payment channels. */
  readonly channels: readonly PaymentProvider[]
}

export interface SimDeduct extends SkuRef {
  readonly userId: string
  readonly quantity: number
  readonly version: string
  readonly orderNo: string
}

/** How old a process' copy of the stop row may be; a copy twice as old is waited for. */
export const REFRESH_MS = 1_000

/** Money in one process of the host, as `Payments` has it. */
export interface SimPayments {
  create(q: {
    readonly orderNo: string
    readonly userId: string
    readonly channel: string
  }): Promise<unknown>
  notice(n: PaymentNotice): Promise<{ readonly acknowledge: boolean }>
  refund(q: {
    readonly paymentId: string
    readonly refundId: string
    readonly amountMinor: number
    readonly reason: string
  }): Promise<unknown>
  cancel(
    q: SkuRef & { readonly orderNo: string; readonly userId: string },
  ): Promise<{ readonly status: string }>
  close(q: { readonly orderNo: string; readonly reason: string }): Promise<unknown>
  /** One round of what looks after deadlines, refunds and money without an order. */
  keep(): Promise<void>
}

/** What the simulator drives of one process of the host. */
export interface SimSale {
  readonly stock: Pick<ReconcilableStock, 'move' | 'topUp'> & {
    deduct(request: SimDeduct): Promise<{ readonly status: string }>
  }
  readonly payments: SimPayments
  warmUp(activityId: string, audit: Audit): Promise<unknown>
  control(
    activityId: string,
    to: SaleState,
    audit: Audit,
  ): Promise<{ readonly acknowledged: number; readonly of: number }>
  /** A click, through the gate that reads the stop row every {@link REFRESH_MS}. */
  submit(
    click: SkuRef & {
      readonly buyer: { readonly userId: string; readonly ip: string }
      readonly quantity: number
    },
  ): Promise<Submitted>
  topUp(ref: SkuRef, units: number, operationId: string, audit: Audit): Promise<unknown>
  /** Begins to consume the queue. */
  consume(): Promise<void>
  /** One round of the relay. */
  relay(): Promise<void>
  /** One round of what watches Redis, where the host has that. */
  guard?(): Promise<void>
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
    o: Omit<SimParts, 'payments' | 'channels' | 'leases'> & { readonly refreshMs: number },
  ) => Omit<SimSale, 'consume' | 'relay' | 'guard' | 'reconcile' | 'stock' | 'payments'> & {
    readonly stock: ReconcilableStock & SimSale['stock']
    worker(o: { readonly ordersPerSecond: number; readonly database: null }): Background
    relay(): { run(): Promise<void> }
    guardian(o: { readonly leases: Leases }): { run(): Promise<void> }
  }
  readonly TriangleReconciler: new (o: {
    readonly stock: ReconcilableStock
    readonly orders: OrderBook
    readonly activities: ActivityStore
    readonly control: ActivityControl
    readonly payments: PaymentRecords
  }) => {
    inspect(activityId: string): Promise<{ readonly findings: readonly Finding[] }>
    repair(findings: readonly Finding[]): Promise<unknown>
  }
  readonly Payments: new (o: {
    readonly book: PaymentBook
    readonly orders: OrderBook
    readonly ledger: Pick<Ledger, 'move' | 'reservations'>
    readonly providers: readonly PaymentProvider[]
    readonly events: FlashSaleEvents
  }) => Omit<SimPayments, 'keep'> & { keeper(): { run(): Promise<void> } }
}

/** The pipeline of this package: `flashSaleIn({ FlashSale, TriangleReconciler, Payments })`. */
export function flashSaleIn<Finding>({
  FlashSale,
  TriangleReconciler,
  Payments,
}: Classes<Finding>): OpenSale {
  return ({ payments: book, channels, leases, ...parts }) => {
    const sale = new FlashSale({ ...parts, refreshMs: REFRESH_MS })
    const worker = sale.worker({ ordersPerSecond: 1_000_000, database: null })
    const relay = sale.relay()
    const guardian = sale.guardian({ leases })
    const { orders, activities, control, events } = parts
    const { stock } = sale
    const reconciler = new TriangleReconciler({
      ...{ stock, orders, activities, control },
      payments: book,
    })
    const money = new Payments({ book, orders, ledger: stock, providers: channels, events })
    const keeper = money.keeper()
    return {
      stock,
      payments: {
        create: (q) => money.create(q),
        notice: (n) => money.notice(n),
        refund: (q) => money.refund(q),
        cancel: (q) => money.cancel(q),
        close: (q) => money.close(q),
        keep: () => keeper.run(),
      },
      warmUp: (id, audit) => sale.warmUp(id, audit),
      control: (id, to, audit) => sale.control(id, to, audit),
      submit: (click) => sale.submit(click),
      topUp: (ref, units, id, audit) => sale.topUp(ref, units, id, audit),
      consume: () => worker.start(),
      relay: () => relay.run(),
      guard: () => guardian.run(),
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
