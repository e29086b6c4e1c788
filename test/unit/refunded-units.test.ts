import type { Move, OrderRow, Queue, Reservation, Verdict } from 'flash-sale-kit'
import { orderSaga } from 'flash-sale-kit'
import { describe, expect, it } from 'vitest'
import { movesOf } from '../../src/core/standing.js'
import { closeUnbooked } from '../../src/payment/close.js'
import type { Parts } from '../../src/payment/parts.js'
import { deliverTo } from '../../src/pipeline/deliver.js'
import { settle } from '../../src/pipeline/settle.js'
import { toRow } from '../../src/reconcile/moves.js'
import { catchUp } from '../../src/reconcile/rebuild-compare.js'

const ref = { activityId: 'a', skuId: 's' }
const of = (orderNo: string): Reservation => ({
  ...ref,
  ...{ orderNo, userId: `buyer-${orderNo}`, quantity: 1, bucket: 0, version: 'v1' },
  reservedAt: 1_790_000_000_000,
})
const row = (orderNo: string, reason: string): OrderRow => ({
  ...of(orderNo),
  ...{ status: 'closed', reason, amountMinor: 100, currency: 'CNY', payBy: 1_790_000_900_000 },
})
const closed = (orderNo: string, reason: string): Verdict => {
  return { orderNo, status: 'closed', reason, fresh: false }
}
const both = [of('1'), of('2')]
const verdicts = [closed('1', 'refunded'), closed('2', 'unpaid')]
const rows = [row('1', 'refunded'), row('2', 'unpaid')]
const said = (moves: readonly Move[]) => moves.map((m) => `${m.reservation.orderNo} ${m.to}`)

/** A failover, or a call that was lost, and Redis does not know of the payment: its units are sold all the same. */
describe('the units of a refunded order stay sold', () => {
  it('when a message comes twice, or a batch is closed as lost', async () => {
    const moves: Move[] = []
    const stock = {
      move: async (some: readonly Move[]) => {
        moves.push(...some)
        return []
      },
      delivered: async () => {},
    }
    const batch = { schema: 1, batchId: 'b', ...ref, reservations: both } as const
    await settle(stock, { released: async () => {} }, [batch], verdicts)
    expect(said(moves)).toEqual(['1 paid', '2 released'])
  })

  it('when a send is rejected', async () => {
    const queue = { send: async () => 'rejected' } as unknown as Queue
    const orders = { closeUnbooked: async () => verdicts } as never
    const batch = { schema: 1, batchId: 'b', ...ref, reservations: both } as const
    const signal = new AbortController().signal
    expect(await deliverTo(queue, orders)(batch, signal)).toEqual({ closed: ['2'] })
  })

  it('when the reconciler repairs', () => {
    expect(said(movesOf(verdicts, both))).toEqual(['1 paid', '2 released'])
    expect(said(rows.map((r) => toRow({ row: r, record: null } as never)))).toEqual([
      '1 paid',
      '2 released',
    ])
  })

  it('when a rebuild catches up', async () => {
    const moves: Move[] = []
    const stock = {
      reservations: async () => both.map((r) => ({ ...r, state: 'confirmed' })),
      move: async (some: readonly Move[]) => void moves.push(...some),
    }
    const orders = {
      async *snapshot() {
        yield* rows
      },
    }
    const caught = await catchUp({ stock, orders } as never, ref, new AbortController().signal)
    expect([said(moves), caught]).toEqual([['1 paid', '2 released'], { adopted: 1, returned: 1 }])
  })

  it('when a buyer cancels, or a number that nobody knows is closed', async () => {
    const moves: Move[] = []
    const parts = (verdict: Verdict) =>
      ({
        orders: { closeUnbooked: async () => [verdict] },
        tell: async (some: readonly Move[]) => void moves.push(...some),
      }) as unknown as Parts
    for (const [i, verdict] of verdicts.entries())
      await closeUnbooked(parts(verdict), both[i] as Reservation, 'cancelled')
    expect(said(moves)).toEqual(['1 paid', '2 released'])
  })

  it('when a saga takes the order back', async () => {
    const moves: Move[] = []
    const orders = {
      find: async ([no]: readonly string[]) => rows.filter((r) => r.orderNo === no),
      released: async () => {},
    }
    const stock = { move: async (some: readonly Move[]) => void moves.push(...some) }
    const saga = orderSaga({ orders, stock } as never)
    const giveBack = saga.steps.find((step) => step.name === 'give-back')
    for (const orderNo of ['1', '2']) await giveBack?.do({ orderNo, reason: 'x' }, {} as never)
    expect(said(moves)).toEqual(['1 paid', '2 released'])
  })
})
