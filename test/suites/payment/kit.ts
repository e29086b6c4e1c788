import {
  type Activity,
  newOrderNo,
  type OrderRow,
  type PaymentNotice,
  Payments,
  type PaymentsOptions,
  type Reservation,
  StockBucket,
  type StoredPayment,
  TriangleReconciler,
} from 'flash-sale-kit'
import {
  KnexActivityControl,
  KnexActivityStore,
  KnexOrderBook,
  KnexPaymentBook,
  type KnexPaymentBookOptions,
} from 'flash-sale-kit/knex'
import { SandboxPayments, type SandboxPaymentsOptions } from 'flash-sale-kit/testing'
import type { Redis } from 'ioredis'
import type { Knex } from 'knex'
import { afterAll, beforeAll, expect } from 'vitest'
import { type DatabaseKind, type FreshDatabase, freshDatabase } from '../../harness/databases.js'
import { freshRedis, mockRedis } from '../../harness/redis.js'

export const AUDIT = { actor: 'op', reason: 'a test' } as const
export const PRICE = 9_900
export const CURRENCY = 'CNY'
const NEVER = 9e15

export interface Backend {
  readonly db: FreshDatabase
  readonly redis: Redis
}

/** One database and one Redis (on SQLite its mock) for a describe block. */
export function useBackend(kind: DatabaseKind): () => Backend {
  let backend: (Backend & { close(): Promise<void> }) | undefined
  beforeAll(async () => {
    const db = await freshDatabase(kind, { poolMax: 20 })
    await KnexOrderBook.migrate(db.knex)
    const server = kind === 'sqlite' ? null : await freshRedis()
    const redis = server?.redis ?? mockRedis()
    const close = async () => {
      if (server) await server.destroy()
      else redis.disconnect()
      await db.destroy()
    }
    backend = { db, redis, close }
  })
  afterAll(() => backend?.close())
  return () => {
    if (!backend) throw new Error('the backend is there once the tests run')
    return backend
  }
}

export interface TillOptions {
  readonly units?: number
  readonly payments?: Partial<PaymentsOptions>
  readonly book?: Partial<KnexPaymentBookOptions>
  readonly quantity?: number
  readonly channels?: Partial<SandboxPaymentsOptions>
}

let tills = 0

/** What earlier tests left is nobody's business any more. */
async function retire(knex: Knex): Promise<void> {
  await knex('seckill_payment').update({ next_at: NEVER })
  await knex('seckill_refund').update({ next_at: NEVER })
  await knex('seckill_order').where({ status: 'CONFIRMED' }).update({ pay_by: NEVER })
}

/** A sale of one SKU at 99.00 CNY with two channels, `wx` and `ali`; nothing runs in the background. */
export async function openTill({ db, redis }: Backend, o: TillOptions = {}) {
  const { knex } = db
  await retire(knex)
  const orders = new KnexOrderBook({ knex })
  const activities = new KnexActivityStore({ knex })
  const control = new KnexActivityControl({ knex })
  const stock = new StockBucket({ redis, deliver: 'nothing-owed' })
  const now = Date.now()
  const activityId = `pay${++tills}-${now.toString(36)}`
  const ref = { activityId, skuId: 's1' }
  const activity: Activity = {
    activityId,
    version: 'v1',
    opensAt: now - 60_000,
    endsAt: now + 3_600_000,
    payWithinMs: 900_000,
    mode: 'queued',
    tokens: 'off',
    maxPerOrder: 10,
    skus: [{ skuId: 's1', units: o.units ?? 10, priceMinor: PRICE, currency: CURRENCY }],
  }
  await activities.save(activity)
  await stock.warmUp(activity, await orders.prepare(activity))
  await control.set(activityId, 'open', AUDIT)
  await stock.control(activityId, 'open')

  const book = new KnexPaymentBook({ knex, ...o.book })
  const wx = new SandboxPayments({ channel: 'wx', seed: tills, ...o.channels })
  const ali = new SandboxPayments({ channel: 'ali', seed: tills, ...o.channels })
  const alerts: string[] = []
  const options: PaymentsOptions = {
    book,
    orders,
    ledger: stock,
    providers: [wx, ali],
    events: { onAlert: (code) => alerts.push(code) },
    callTimeoutMs: 200,
    ...o.payments,
  }
  const payments = new Payments(options)
  const keeper = payments.keeper()
  const [newest] = await knex('seckill_manual_task').max({ id: 'id' })
  const lastTask = Number(newest?.id ?? 0)
  const till = {
    ...{ knex, orders, activities, control, stock, book, wx, ali, payments, options },
    ...{ keeper, alerts, ref, activity },

    /** Another process on the same data. */
    another: (changed: Partial<PaymentsOptions> = {}) => new Payments({ ...options, ...changed }),

    /** Units taken in Redis; no row yet. */
    async held(userId: string, quantity = o.quantity ?? 1): Promise<Reservation> {
      const deducted = await stock.deduct({ ...ref, userId, version: 'v1', quantity })
      if (deducted.status !== 'reserved') throw new Error(deducted.status)
      return deducted.reservation
    },

    /** A CONFIRMED order. */
    async order(userId: string, quantity?: number): Promise<Reservation> {
      const reservation = await till.held(userId, quantity)
      await orders.confirm([reservation])
      await stock.move([{ to: 'confirmed', reservation }])
      return reservation
    },

    /** A payment that waits for the buyer at a channel. */
    async asked(order: Reservation, channel = 'wx'): Promise<string> {
      const { orderNo, userId } = order
      const created = await payments.create({ orderNo, userId, channel })
      if (created.status !== 'created') throw new Error(created.status)
      return created.payment.paymentId
    },

    /** The channel has the money; its callback is returned, not delivered. */
    async paid(order: Reservation, channel: SandboxPayments = wx): Promise<PaymentNotice> {
      const notice = channel.pay(await till.asked(order, channel.channel))
      if (!notice) throw new Error('closed at the channel')
      return notice
    },

    async row(orderNo: string): Promise<OrderRow> {
      const [row] = await orders.find([orderNo])
      if (!row) throw new Error(`no row of ${orderNo}`)
      return row
    },

    async payment(paymentId: string): Promise<StoredPayment> {
      const payment = await book.findPayment(paymentId)
      if (!payment) throw new Error(`no payment ${paymentId}`)
      return payment
    },

    /** The deadline of an order passes. */
    expire: (orderNo: string) =>
      knex('seckill_order').where({ order_no: orderNo }).update({ pay_by: 1_000 }),

    /** The time of everything that waits has come; then the keeper makes `rounds` rounds. */
    async round(rounds = 1, which = keeper): Promise<void> {
      for (let i = 0; i < rounds; i++) {
        const waits = (table: string) =>
          knex(table).where('next_at', '<', NEVER).andWhere('next_at', '>', 0)
        await waits('seckill_payment').update({ next_at: 1 })
        await waits('seckill_refund').update({ next_at: 1 })
        await which.run()
      }
    },

    /** Manual tasks of a kind since the till was opened. */
    async tasks(kind: string): Promise<number> {
      const rows = await knex('seckill_manual_task').where({ kind }).andWhere('id', '>', lastTask)
      return rows.length
    },

    /** Those of them that nobody has dealt with. */
    async openTasks(kind: string): Promise<number> {
      const tasks = knex('seckill_manual_task').where({ kind }).andWhere('id', '>', lastTask)
      return (await tasks.whereNull('resolved_at')).length
    },

    /** A person has dealt with all of them. */
    resolveTasks: (kind: string) =>
      knex('seckill_manual_task').where({ kind }).update({ resolved_at: 1, resolved_by: 'op' }),

    /** What became of all money at the channels, and of all units. */
    async sound(): Promise<void> {
      await soundMoney(till)
      await soundUnits(till)
    },
  }
  return till
}

export type Till = Awaited<ReturnType<typeof openTill>>

type Books = Pick<Backend['db'], 'knex'> & {
  readonly book: KnexPaymentBook
  readonly orders: KnexOrderBook
  readonly activities: KnexActivityStore
  readonly stock: StockBucket
  readonly ref: { readonly activityId: string; readonly skuId: string }
  readonly wx: SandboxPayments
  readonly ali: SandboxPayments
}

/**
 * Every payment received is in exactly one PAID order, or goes back in refunds that add up to it; never both, and no more
 * goes back than came in.
 */
async function soundMoney({ knex, book, orders, wx, ali }: Books): Promise<void> {
  for (const channel of [wx, ali])
    for (const { tradeNo, amountMinor, refundedMinor } of channel.received()) {
      const payment = await book.findTrade(channel.channel, tradeNo)
      if (!payment) throw new Error(`nobody knows of the money ${tradeNo}`)
      const [sums] = await knex('seckill_refund')
        .where({ payment_id: payment.paymentId })
        .sum({ all: 'amount_minor' })
      const decided = Number(sums?.all ?? 0)
      expect(payment.capturedMinor, tradeNo).toBe(amountMinor)
      expect(payment.refundingMinor, tradeNo).toBe(decided)
      expect(decided, `${tradeNo}: refunds never exceed what came in`).toBeLessThanOrEqual(
        amountMinor,
      )
      expect(refundedMinor, `${tradeNo}: no more went back than was decided`).toBeLessThanOrEqual(
        decided,
      )
      const [bought] = payment.paidOrderNo ? await orders.find([payment.paidOrderNo]) : []
      const paid = bought?.status === 'paid'
      expect(payment.status === 'paid', `${tradeNo}: ${payment.status}`).toBe(paid)
      if (!paid)
        expect(decided, `${tradeNo} is in no order, so all of it goes back`).toBe(amountMinor)
    }
}

/** Gives back what Redis is still owed, as a relay does. */
async function relay({ knex, orders, stock }: Books): Promise<void> {
  await knex('local_message').where({ status: 0 }).update({ next_retry_time: 1 })
  for (;;) {
    const owed = await orders.takeReleases({ limit: 1_000, leaseMs: 60_000 })
    if (owed.length === 0) return
    await stock.move(
      owed.map(({ reservation, reason }) => ({ to: 'released', reservation, reason })),
    )
    await orders.released(owed.map((r) => r.reservation.orderNo))
  }
}

/** The database adds up, Redis agrees with it once it was told, and the reconciler finds nothing. */
async function soundUnits(books: Books): Promise<void> {
  const { orders, stock, ref, activities, book } = books
  const n = await orders.numbers(ref)
  expect(n?.available, 'available = S - live').toBe((n?.total ?? 0) - (n?.live ?? 0))
  await relay(books)
  const redis = await stock.numbers(ref)
  expect(redis.available - redis.over, 'Redis has what the database has').toBe(n?.available)
  const reconciler = new TriangleReconciler({
    ...{ stock, orders, activities, payments: book, graceMs: 0 },
  })
  const report = await reconciler.inspect(ref.activityId)
  // A refund may be on its way, or wait for a person; what was decided of it is counted above.
  expect(report.findings.filter((f) => f.kind !== 'refund-stuck')).toEqual([])
}

/** A notice for an order that no payment was made for by `create`. */
export function direct(
  till: Till,
  order: Pick<Reservation, 'orderNo' | 'userId'>,
  o: Partial<PaymentNotice> = {},
): PaymentNotice {
  const { userId, orderNo } = order
  const named = { ...till.ref, orderNo }
  const notice = till.wx.pay(o.paymentId ?? newOrderNo(), {
    amountMinor: o.amountMinor ?? PRICE,
    currency: o.currency ?? CURRENCY,
    userId,
    order: named,
  })
  if (!notice) throw new Error('closed at the channel')
  return { ...notice, ...o }
}

/** The same, but for some of its methods. */
export function changed<T extends object>(of: T, by: Partial<T>): T {
  return new Proxy(of, {
    get(target, name) {
      if (name in by) return by[name as keyof T]
      const value = target[name as keyof T]
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** `{applied: 1, repeated: 4}`. */
export function tally(outcomes: readonly { readonly status: string }[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status } of outcomes) counts[status] = (counts[status] ?? 0) + 1
  return counts
}
