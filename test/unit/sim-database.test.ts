import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import type { Activity, OrderBook, PaymentBook, Reservation } from 'flash-sale-kit'
import { KnexActivityControl, KnexOrderBook, KnexPaymentBook } from 'flash-sale-kit/knex'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { SimControl } from '../../src/testing/sim/sim-control.js'
import { SimDatabase } from '../../src/testing/sim/sim-database.js'
import { SimMoney } from '../../src/testing/sim/sim-money.js'
import { simOrders } from '../../src/testing/sim/sim-orders.js'
import { simPaymentBook } from '../../src/testing/sim/sim-payment-book.js'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'

const AUDIT = { actor: 'test', reason: 'a test' }
const PRICE = 100
const HOUR = 3_600_000
const REDIS_NOW = Date.now()
/** Numbers, whose they are and for how many units. */
const NUMBERS = [
  ['a1', 'A', 1],
  ['a2', 'A', 2],
  ['b1', 'B', 1],
  ['b2', 'B', 1],
  ['c1', 'C', 2],
  ['c2', 'C', 1],
] as const
const number = fc.integer({ min: 0, max: NUMBERS.length - 1 })
const few = fc.uniqueArray(number, { minLength: 1, maxLength: 3 })
const channel = fc.constantFrom('wx', 'ali')

type Command =
  | { readonly do: 'confirm' | 'close' | 'unpaid'; readonly of: readonly number[] }
  | { readonly do: 'top up'; readonly units: number; readonly id: string }
  | { readonly do: 'sale'; readonly to: 'open' | 'stopped' }
  | {
      readonly do: 'open' | 'opened' | 'withdrawn'
      readonly of: number
      readonly channel: string
      readonly id: number
    }
  | {
      readonly do: 'capture'
      readonly of: number
      readonly channel: string
      /** A payment that the host has opened, or one of his own. */
      readonly own: boolean
      readonly id: number
      readonly trade: number
      readonly more: number
      readonly confirmed: boolean
      readonly late: 'reserve-or-refund' | 'refund'
    }
  | {
      readonly do: 'refund'
      readonly payment: number
      readonly share: number
      readonly made: boolean
    }
  | { readonly do: 'refunded' | 'unfounded'; readonly which: number }

const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('confirm' as const), of: few }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('close' as const, 'unpaid'), of: few }) },
  {
    weight: 1,
    arbitrary: fc.record({
      ...{ do: fc.constant('top up' as const), units: fc.constantFrom(1, -1, 2, -3) },
      id: fc.constantFrom('t1', 't2', 't3'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('sale' as const),
      to: fc.constantFrom('open', 'stopped'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      ...{
        do: fc.constantFrom('open' as const, 'open', 'opened', 'withdrawn'),
        of: number,
        channel,
      },
      id: fc.constantFrom(1, 1, 2),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      ...{ do: fc.constant('capture' as const), of: number, channel, own: fc.boolean() },
      id: fc.constantFrom(1, 1, 2),
      ...{ trade: fc.constantFrom(1, 1, 1, 2), more: fc.constantFrom(0, 0, 0, 0, 1) },
      confirmed: fc.boolean(),
      late: fc.constantFrom('reserve-or-refund', 'reserve-or-refund', 'refund'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      ...{ do: fc.constant('refund' as const), payment: fc.nat(5), made: fc.boolean() },
      share: fc.constantFrom(1, 1, 0.5, 2),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      ...{ do: fc.constantFrom('refunded' as const, 'refunded', 'unfounded'), which: fc.nat(5) },
    }),
  },
)

/** Orders, payments and the durable row, of the simulator or of the knex adapters. */
interface Side {
  readonly orders: OrderBook
  readonly payments: PaymentBook
  readonly control: {
    set(id: string, to: 'open' | 'stopped', audit: typeof AUDIT): Promise<unknown>
  }
}

let database: FreshDatabase
let runs = 0
beforeAll(async () => {
  database = await freshDatabase('sqlite')
  await KnexOrderBook.migrate(database.knex)
})
afterAll(() => database?.destroy())

function knexSide(): Side {
  const { knex } = database
  const control = new KnexActivityControl({ knex })
  return { orders: new KnexOrderBook({ knex }), payments: new KnexPaymentBook({ knex }), control }
}

function simSide(activity: Activity): Side {
  const now = () => Date.now()
  const control = new SimControl({})
  const db = new SimDatabase(activity, now, {
    liveKey: true,
    rowsForRefused: true,
    lateIsNew: true,
    refundsAddUp: true,
  })
  const money = new SimMoney(db, now, () => control.isOpen)
  const write = async <T>(_: string, __: readonly string[], act: () => T) => act()
  return { orders: simOrders(db, write, now), payments: simPaymentBook(money, write, now), control }
}

/** One sale on one side, and what all that was asked has answered. */
class Till {
  readonly ref
  private news = 0
  private readonly paymentIds = new Set<string>()
  private readonly opened = new Set<string>()
  private readonly refundIds = new Set<string>()
  private readonly extra: string[] = []

  constructor(
    private readonly side: Side,
    private readonly activity: Activity,
  ) {
    this.ref = { activityId: activity.activityId, skuId: 's1' }
  }

  /** Ids are of this sale; in answers they are not. */
  private id(of: string): string {
    return `${this.ref.activityId}-${of}`
  }

  private reservation(of: number): Reservation {
    const [no, userId, quantity] = NUMBERS[of] as (typeof NUMBERS)[number]
    const about = { orderNo: this.id(no), userId: this.id(userId), quantity, reservedAt: REDIS_NOW }
    return { ...this.ref, ...about, bucket: 0, version: this.activity.version }
  }

  async act(c: Command): Promise<unknown> {
    const { orders, payments, control } = this.side
    switch (c.do) {
      case 'confirm':
        return orders.confirm(c.of.map((n) => this.reservation(n)))
      case 'close':
        return orders.closeUnbooked(
          c.of.map((n) => this.reservation(n)),
          'lost',
        )
      case 'unpaid':
        // Verdicts of numbers alone come in any order.
        return byNumber(
          await orders.closeUnpaid(
            c.of.map((n) => this.reservation(n).orderNo),
            'unpaid',
          ),
        )
      case 'top up':
        return orders.topUp(this.ref, c.units, this.id(`${c.id}${c.units}`), AUDIT)
      case 'sale':
        return void (await control.set(this.ref.activityId, c.to, AUDIT))
      case 'open': {
        const { orderNo, userId } = this.reservation(c.of)
        const paymentId = this.payment(c)
        this.opened.add(paymentId)
        this.paymentIds.add(paymentId)
        return payments.open({ orderNo, userId, channel: c.channel, paymentId, leaseMs: HOUR })
      }
      case 'opened':
        return payments.opened(this.payment(c), { url: 'x' })
      case 'withdrawn':
        return payments.withdrawn(this.payment(c))
      case 'capture': {
        const { userId, orderNo, quantity } = this.reservation(c.of)
        // Ids of payments that are to be made are known to nobody.
        const known = !c.own && this.opened.has(this.payment(c))
        const paymentId = known ? this.payment(c) : this.id(`own-${c.of}-${c.channel}`)
        const [newOrderNo, newPaymentId] = [this.id(`n${++this.news}`), this.id(`x${this.news}`)]
        this.extra.push(newOrderNo)
        for (const id of [paymentId, newPaymentId]) this.paymentIds.add(id)
        const captured = await payments.capture(
          {
            ...{ channel: c.channel, paymentId, currency: 'CNY', confirmed: c.confirmed },
            tradeNo: this.id(`trade-${c.of}-${c.channel}-${c.trade}`),
            amountMinor: quantity * PRICE + c.more,
            userId: c.own ? userId : null,
            order: c.own ? { ...this.ref, orderNo } : null,
          },
          { latePayment: c.late, newOrderNo, newPaymentId },
        )
        return { ...captured, payment: captured.payment.paymentId }
      }
      case 'refund': {
        const paymentId = this.anyPayment(c.payment)
        const captured = (await payments.findPayment(paymentId))?.capturedMinor ?? 0
        const amountMinor = Math.max(1, Math.round(captured * c.share))
        const refundId = this.id(`r-${c.payment}-${c.share}`)
        this.refundIds.add(refundId)
        return payments.decideRefund({
          ...{ refundId, paymentId, amountMinor, reason: 'asked', made: c.made },
        })
      }
      case 'refunded': {
        const ids = [...this.paymentIds, ...this.refundIds].sort()
        const refundId = ids[c.which % Math.max(1, ids.length)] ?? this.id('none')
        await sleep(2) // nobody's lease is as long
        const [job] = await payments.takeRefunds({ limit: 1, leaseMs: 1, refundId })
        return job && payments.endRefund(job, { status: 'refunded' })
      }
      case 'unfounded':
        return payments.unfounded(this.anyPayment(c.which))
      default:
        return c satisfies never
    }
  }

  /** All rows, and the numbers. */
  async state(): Promise<unknown> {
    const { orders, payments } = this.side
    const nos = [...NUMBERS.map((_, i) => this.reservation(i).orderNo), ...this.extra]
    const rows = await orders.find(nos)
    const found = await Promise.all(
      [...this.paymentIds].sort().map((id) => payments.findPayment(id)),
    )
    return {
      numbers: await orders.numbers(this.ref),
      rows: byNumber(
        rows.map(({ orderNo, userId, status, reason, quantity, amountMinor, currency }) => {
          return { orderNo, userId, status, reason, quantity, amountMinor, currency }
        }),
      ),
      payments: found.map((p) => p && plain(p)),
    }
  }

  private payment(c: {
    readonly of: number
    readonly channel: string
    readonly id: number
  }): string {
    return this.id(`p${c.id}-${c.of}-${c.channel}`)
  }

  private anyPayment(which: number): string {
    const ids = [...this.paymentIds].sort()
    return ids[which % Math.max(1, ids.length)] ?? this.id('none')
  }
}

const byNumber = <T extends { readonly orderNo: string }>(of: readonly T[]): readonly T[] =>
  [...of].sort((a, b) => (a.orderNo < b.orderNo ? -1 : 1))

const plain = (p: NonNullable<Awaited<ReturnType<PaymentBook['findPayment']>>>) => ({
  ...{ paymentId: p.paymentId, channel: p.channel, orderNo: p.orderNo, userId: p.userId },
  ...{ status: p.status, paidOrderNo: p.paidOrderNo, tradeNo: p.tradeNo, cashier: p.cashier },
  ...{ amountMinor: p.amountMinor, currency: p.currency, capturedMinor: p.capturedMinor },
  ...{ refundingMinor: p.refundingMinor, refundedMinor: p.refundedMinor },
})

/** What is of one side only: instants, and what a reason says beyond its word. */
const comparable = (answer: unknown): unknown =>
  JSON.parse(
    JSON.stringify(answer ?? null, (key, value) => {
      if (key === 'payBy' || key === 'reservedAt') return undefined
      return key === 'reason' && typeof value === 'string' ? value.split(':')[0] : value
    }),
  )

const answerOf = async (work: Promise<unknown>): Promise<unknown> =>
  comparable(await work.catch((error: { code?: string }) => ({ throws: error.code ?? error })))

it('the simulated database decides as the knex adapters do', { timeout: 120_000 }, async () => {
  const words = new Set<string>()
  await fc.assert(
    fc.asyncProperty(fc.array(command, { minLength: 5, maxLength: 30 }), async (commands) => {
      const activity: Activity = {
        ...{ activityId: `run${++runs}`, version: 'v1', mode: 'queued', tokens: 'off' },
        ...{ opensAt: Date.now() - HOUR, endsAt: Date.now() + HOUR, payWithinMs: HOUR },
        maxPerOrder: 2,
        skus: [{ skuId: 's1', units: 3, priceMinor: PRICE, currency: 'CNY' }],
      }
      const [real, sim] = [knexSide(), simSide(activity)]
      await real.orders.prepare(activity)
      const [a, b] = [new Till(real, activity), new Till(sim, activity)]
      for (const c of [{ do: 'sale', to: 'open' } as const, ...commands]) {
        const [expected, answer] = [await answerOf(a.act(c)), await answerOf(b.act(c))]
        expect(answer, JSON.stringify(c)).toEqual(expected)
        expect(await b.state(), JSON.stringify(c)).toEqual(await a.state())
        words.add(`${c.do} ${(expected as { status?: string } | null)?.status ?? ''}`)
      }
    }),
    { numRuns: 100 },
  )
  for (const status of ['applied', 'refunding', 'waiting', 'anomaly'])
    expect(words, 'it is about something').toContain(`capture ${status}`)
  for (const status of ['refunding', 'refunded', 'refused'])
    expect(words).toContain(`refund ${status}`)
})
