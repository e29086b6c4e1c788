import { setTimeout as sleep } from 'node:timers/promises'
import { newOrderNo, type PaymentProvider } from 'flash-sale-kit'
import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { AUDIT, changed, openTill, PRICE, type Till, tally, useBackend } from './kit.js'

/** The reason why a refund was refused by the input check. */
const BAD_AMOUNTS: readonly unknown[] = [
  -100,
  0,
  0.1 + 0.2,
  6000.5,
  '6000',
  6000n,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  2 ** 53,
  null,
  undefined,
]

export function refundSuite(kind: DatabaseKind): void {
  describe(`refunds on ${kind}`, () => {
    const backend = useBackend(kind)

    async function paidOrder(till: Till, userId = 'ann') {
      const order = await till.order(userId)
      const notice = await till.paid(order)
      await till.payments.notice(notice)
      return { order, paymentId: notice.paymentId }
    }
    const give = (till: Till, paymentId: string, refundId: string, amountMinor: unknown) =>
      till.payments.refund({
        ...{ paymentId, refundId, reason: 'asked for' },
        amountMinor: amountMinor as number,
      })

    it('C25: two refunds of 6000 of 9900 at once: one is made, the other hears what is left', async () => {
      const till = await openTill(backend())
      for (let i = 0; i < 6; i++) {
        const { order, paymentId } = await paidOrder(till, `u${i}`)
        const answers = await Promise.all([
          give(till, paymentId, newOrderNo(), 6_000),
          give(till, paymentId, newOrderNo(), 6_000),
        ])
        expect(tally(answers)).toEqual({ refunded: 1, refused: 1 })
        expect(answers).toContainEqual({ status: 'refused', leftMinor: PRICE - 6_000 })
        expect((await till.row(order.orderNo)).status).toBe('paid')
        expect(await till.payment(paymentId)).toMatchObject({
          status: 'paid',
          refundingMinor: 6_000,
          refundedMinor: 6_000,
        })
      }
      await till.sound()
    })

    it('C25: one refund id five times at once, from two processes, is one refund', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      const both = [till.payments, till.another()]
      const question = { paymentId, refundId: 'r1', amountMinor: 6_000, reason: 'asked for' }
      const answers = await Promise.all(
        Array.from({ length: 5 }, (_, i) => (both[i % 2] ?? till.payments).refund(question)),
      )
      expect(answers.filter((a) => 'fresh' in a && a.fresh)).toHaveLength(1)
      expect(till.wx.calls.refund).toBe(1)
      expect(await till.payments.refund(question)).toMatchObject({
        status: 'refunded',
        fresh: false,
      })
      expect(till.wx.calls.refund).toBe(1)
      await till.sound()
    })

    it('C25: the same id for another amount or payment is BAD_INPUT, and nothing is written', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      const other = await paidOrder(till, 'bob')
      const refundId = newOrderNo()
      await give(till, paymentId, refundId, 100)
      const bad = { code: 'BAD_INPUT' }
      await expect(give(till, paymentId, refundId, 101)).rejects.toMatchObject(bad)
      await expect(give(till, other.paymentId, refundId, 100)).rejects.toMatchObject(bad)
      expect(await till.payment(other.paymentId)).toMatchObject({ refundingMinor: 0 })
      await till.sound()
    })

    it('C25: an amount that is none is BAD_INPUT; more than was captured is refused', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      for (const amount of BAD_AMOUNTS)
        await expect(give(till, paymentId, newOrderNo(), amount)).rejects.toMatchObject({
          code: 'BAD_INPUT',
        })
      expect(await give(till, paymentId, newOrderNo(), PRICE + 1)).toEqual({
        status: 'refused',
        leftMinor: PRICE,
      })
      expect(await give(till, newOrderNo(), newOrderNo(), 1)).toEqual({ status: 'not-found' })
      const unpaid = await till.asked(await till.order('bob'))
      expect(await give(till, unpaid, newOrderNo(), 1)).toEqual({ status: 'refused', leftMinor: 0 })
      expect(till.wx.calls.refund).toBe(0)
      await till.sound()
    })

    it('C25: parts that add up to all close the order as refunded; its units stay sold until the host tops up', async () => {
      const closed: string[] = []
      const till = await openTill(backend(), {
        units: 2,
        book: {
          hooks: {
            async onRefunded(_, order, refundId) {
              closed.push(`${order.orderNo} ${refundId}`)
            },
          },
        },
      })
      const { order, paymentId } = await paidOrder(till)
      const [first, second] = [newOrderNo(), newOrderNo()]
      await give(till, paymentId, first, 6_000)
      expect((await till.row(order.orderNo)).status).toBe('paid')
      await give(till, paymentId, second, PRICE - 6_000)
      expect(await till.row(order.orderNo)).toMatchObject({ status: 'closed', reason: 'refunded' })
      expect((await till.payment(paymentId)).status).toBe('refunded')
      expect(closed).toEqual([`${order.orderNo} ${second}`])
      expect(await till.orders.numbers(till.ref)).toMatchObject({ total: 2, available: 1, live: 1 })
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 1, sold: 1 })
      await till.sound()

      // On sale again, by the host's own act, once: under the refund's id.
      for (let i = 0; i < 2; i++) {
        await till.orders.topUp(till.ref, 1, second, AUDIT)
        await till.stock.topUp(till.ref, 1, second)
      }
      expect(await till.orders.numbers(till.ref)).toMatchObject({ total: 3, available: 2, live: 1 })
      await till.sound()
      await paidOrder(till, 'bob')
      await paidOrder(till, 'cy')
      expect(await till.orders.numbers(till.ref)).toMatchObject({ total: 3, available: 0, live: 3 })
      await till.sound()
    })

    it('C25: whoever refunds or closes twice gives no unit back twice', async () => {
      const till = await openTill(backend(), { units: 2 })
      const { order, paymentId } = await paidOrder(till)
      await Promise.all([
        give(till, paymentId, newOrderNo(), PRICE),
        give(till, paymentId, newOrderNo(), PRICE),
        till.payments.close({ orderNo: order.orderNo, reason: 'saga' }),
        till.payments.cancel({ ...till.ref, orderNo: order.orderNo, userId: 'ann' }),
      ])
      await till.stock.move([{ to: 'released', reservation: order, reason: 'refunded' }])
      expect(await till.orders.numbers(till.ref)).toMatchObject({ available: 1, live: 1 })
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 1, sold: 1 })
      expect(till.wx.refunds()).toHaveLength(1)
      await till.sound()
    })

    it('C25: a saga’s refund and the late-payment rule at once give the money back once', async () => {
      const till = await openTill(backend())
      for (let i = 0; i < 4; i++) {
        const order = await till.order(`u${i}`)
        const notice = await till.paid(order)
        await till.payments.close({ orderNo: order.orderNo, reason: 'saga' })
        const [answer] = await Promise.all([
          till.payments.notice(notice),
          give(till, notice.paymentId, newOrderNo(), PRICE),
          give(till, notice.paymentId, newOrderNo(), PRICE),
        ])
        expect(answer.status).toBe('refunding')
      }
      await till.round(2)
      expect(till.wx.refunds()).toHaveLength(4)
      expect(till.wx.received().every((p) => p.refundedMinor === PRICE)).toBe(true)
      await till.sound()
    })

    it('C25: a channel that times out though it paid is queried, and not asked a second time', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      till.wx.fail('refund', 'silent')
      expect(await give(till, paymentId, 'silent-1', 6_000)).toMatchObject({ status: 'refunding' })
      // A repeat within the pause asks nobody.
      expect(await give(till, paymentId, 'silent-1', 6_000)).toMatchObject({ status: 'refunding' })
      expect(till.wx.calls).toMatchObject({ refund: 1, queryRefund: 0 })
      till.wx.fail('queryRefund', 'unreached')
      await till.round()
      expect(till.wx.calls.refund).toBe(1)
      await till.round()
      expect(till.wx.calls).toMatchObject({ refund: 1, queryRefund: 1 })
      expect(await till.payment(paymentId)).toMatchObject({ refundedMinor: 6_000 })
      await till.sound()
    })

    it('C25: a refund that never arrived is made after the look; one that the look denies is still one', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      till.wx.fail('refund', 'unreached')
      await give(till, paymentId, newOrderNo(), 100)
      till.wx.fail('refund', 'lost-answer')
      await give(till, paymentId, newOrderNo(), 200)
      till.wx.fail('queryRefund', 'denied', 2)
      await till.round(2)
      expect(till.wx.refunds()).toHaveLength(2)
      expect(await till.payment(paymentId)).toMatchObject({ refundedMinor: 300 })
      await till.sound()
    })

    it('C25: whoever has slept through his lease makes no call; another makes it', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      const { book } = till
      const sleepy = Object.create(book, {
        takeRefunds: {
          value: async (o: { limit: number; leaseMs: number }) => {
            const jobs = await book.takeRefunds(o)
            await sleep(o.leaseMs)
            return jobs
          },
        },
        decideRefund: { value: book.decideRefund.bind(book) },
      })
      const slow = till.another({ book: sleepy, callTimeoutMs: 10 })
      const refundId = newOrderNo()
      const question = { paymentId, refundId, amountMinor: 100, reason: 'asked for' }
      const asleep = slow.refund(question)
      await expect
        .poll(() => till.knex('seckill_refund').where({ refund_id: refundId, tries: 1 }))
        .toHaveLength(1)
      expect(await asleep).toMatchObject({ status: 'refunding' })
      expect(till.wx.calls.refund).toBe(0)
      await till.round()
      expect(till.wx.calls).toMatchObject({ refund: 1, queryRefund: 1 })
      await till.sound()
    })

    it('C25: a refund that is on its way at the channel is asked about, never made again, and never given up', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      let arrived = false
      let made = 0
      const slow = till.another({
        providers: [
          {
            channel: 'wx',
            create: (request, o) => till.wx.create(request, o),
            query: (id, o) => till.wx.query(id, o),
            close: (id, o) => till.wx.close(id, o),
            async refund(request, o) {
              made++
              await till.wx.refund(request, o)
              return { status: 'pending' }
            },
            queryRefund: async () => ({ status: arrived ? 'refunded' : 'pending' }),
          },
        ],
      })
      const question = {
        paymentId,
        refundId: newOrderNo(),
        amountMinor: PRICE,
        reason: 'asked for',
      }
      expect(await slow.refund(question)).toMatchObject({ status: 'refunding' })
      await till.round(12, slow.keeper())
      expect(await till.payment(paymentId)).toMatchObject({ status: 'refunding', refundedMinor: 0 })
      arrived = true
      await till.round(1, slow.keeper())
      expect((await till.payment(paymentId)).status).toBe('refunded')
      expect(made).toBe(1)
      expect(till.alerts).not.toContain('refund-parked')
      await till.sound()
    })

    it('C25: after ten tries a refund goes to a person, who can have it tried again', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      till.wx.fail('refund', 'unreached')
      till.wx.fail('queryRefund', 'unreached', 9)
      const refundId = newOrderNo()
      await give(till, paymentId, refundId, PRICE)
      await till.round(8)
      expect(till.alerts).not.toContain('refund-parked')
      await till.round()
      expect(till.alerts).toContain('refund-parked')
      expect(await till.tasks('refund-parked')).toBe(1)
      await till.round(3)
      expect(till.wx.calls).toMatchObject({ refund: 0, queryRefund: 0 })
      // The decision stands: the order stays closed, the money is in one place.
      await till.sound()
      expect(await give(till, paymentId, refundId, PRICE)).toMatchObject({ status: 'refunded' })
      expect(till.wx.calls).toMatchObject({ refund: 1, queryRefund: 1 })
      await till.sound()
    })

    it('C25: a refund that the channel refuses goes to a person at once', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      till.wx.fail('refund', 'refused')
      expect(await give(till, paymentId, newOrderNo(), 100)).toMatchObject({ status: 'parked' })
      expect(await till.tasks('refund-parked')).toBe(1)
      await till.sound()
    })

    it('C25: a refund that is parked again asks a person again; one that is made asks nobody', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      const refundId = newOrderNo()
      for (let i = 0; i < 2; i++) {
        till.wx.fail('refund', 'refused')
        expect(await give(till, paymentId, refundId, 100)).toMatchObject({ status: 'parked' })
        expect(await till.openTasks('refund-parked')).toBe(1)
        if (i === 0) await till.resolveTasks('refund-parked')
      }
      till.wx.fail('queryRefund', 'unreached')
      expect(await give(till, paymentId, refundId, 100)).toMatchObject({ status: 'refunding' })
      expect(await till.openTasks('refund-parked')).toBe(0)
      await till.round()
      expect(await give(till, paymentId, refundId, 100)).toMatchObject({ status: 'refunded' })
      await till.sound()
    })

    it('C25: a parked refund that somebody hears was made asks nobody any more', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      const refundId = newOrderNo()
      const ask = { paymentId, refundId, amountMinor: 100, reason: 'asked for', made: false }
      await till.book.decideRefund(ask)
      const [job] = await till.book.takeRefunds({ limit: 1, leaseMs: 1_000, refundId })
      if (!job) throw new Error('due at once')
      const long = { status: 'parked', reason: `\0${'x'.repeat(100_000)}` } as const
      expect(await till.book.endRefund(job, long)).toBe(true)
      expect(await till.openTasks('refund-parked')).toBe(1)
      expect(await till.book.endRefund(job, { status: 'refunded' })).toBe(true)
      expect(await till.book.endRefund(job, { status: 'refunded' })).toBe(false)
      expect(await till.openTasks('refund-parked')).toBe(0)
    })

    it('C25: who has lost his lease parks nothing, and says so to nobody', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      const refundId = newOrderNo()
      const wx = changed<PaymentProvider>(till.wx, {
        async refund() {
          await till.knex('seckill_refund').where({ refund_id: refundId }).increment('tries', 1)
          return { status: 'refused', reason: 'by an old answer' }
        },
      })
      const slow = till.another({ providers: [wx] })
      const question = { paymentId, refundId, amountMinor: 100, reason: 'asked for' }
      expect(await slow.refund(question)).toMatchObject({ status: 'refunding' })
      expect(till.alerts).not.toContain('refund-parked')
      expect(await till.tasks('refund-parked')).toBe(0)
      await till.round()
      expect(await till.payments.refund(question)).toMatchObject({ status: 'refunded' })
      await till.sound()
    })

    it('C25: of many refunds at a silent channel three are tried in a round, and the others lose no try', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      const decide = (refundId: string) =>
        till.book.decideRefund({ paymentId, refundId, amountMinor: 10, reason: 'r', made: false })
      for (let i = 0; i < 6; i++) await decide(newOrderNo())
      till.wx.fail('refund', 'silent', 6)
      till.wx.fail('queryRefund', 'silent', 6)
      const keeper = till.another({ callTimeoutMs: 20 }).keeper({ concurrency: 1 })
      await keeper.run()
      expect(till.wx.calls.refund).toBe(3)
      await till.round(1, keeper)
      expect(till.wx.calls).toMatchObject({ refund: 3, queryRefund: 3 })
      const rows = await till.knex('seckill_refund').where({ payment_id: paymentId })
      expect(rows.map((row) => Number(row.tries)).sort()).toEqual([1, 1, 1, 2, 2, 2])
      till.wx.calm()
      await till.round(2)
      expect(await till.payment(paymentId)).toMatchObject({ refundedMinor: 60 })
      await till.sound()
    })

    it('C25: the pauses between tries are 1 s, 5 s, 30 s, 2 min, 10 min, by the database’s clock', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      till.wx.fail('refund', 'unreached')
      till.wx.fail('queryRefund', 'unreached', 9)
      const refundId = newOrderNo()
      const waits: number[] = []
      const note = async () => {
        const row = await till.knex('seckill_refund').where({ refund_id: refundId }).first()
        waits.push(Number(row.next_at) - Number(row.updated_at))
      }
      await give(till, paymentId, refundId, 100)
      await note()
      for (let i = 0; i < 5; i++) {
        await till.round()
        await note()
      }
      expect(waits).toEqual([1_000, 5_000, 30_000, 120_000, 600_000, 600_000])
      await till.round(5)
      await till.sound()
    })

    it('C25: a chargeback counts against what is left; beyond it, somebody must look', async () => {
      const till = await openTill(backend())
      const { paymentId } = await paidOrder(till)
      const { tradeNo } = await till.payment(paymentId)
      const back = (chargebackId: string, amountMinor: number) =>
        till.payments.chargeback({
          channel: 'wx',
          tradeNo: tradeNo ?? '',
          chargebackId,
          amountMinor,
        })
      const [first, second] = await Promise.all([
        back('cb1', 6_000),
        give(till, paymentId, newOrderNo(), 6_000),
      ])
      expect([first.status, second.status].sort()).toEqual(['refunded', 'refused'])
      expect(await till.payment(paymentId)).toMatchObject({ refundingMinor: 6_000 })
      if (first.status === 'refunded')
        expect(await back('cb1', 6_000)).toMatchObject({ status: 'refunded', fresh: false })
      expect(await back('cb2', 6_000)).toEqual({ status: 'refused', leftMinor: PRICE - 6_000 })
      expect(till.alerts).toContain('chargeback-beyond')
      expect(await till.tasks('chargeback')).toBeGreaterThan(0)
      const nobody = { channel: 'wx', tradeNo: newOrderNo(), chargebackId: 'cb3', amountMinor: 1 }
      expect(await till.payments.chargeback(nobody)).toEqual({ status: 'not-found' })
      await till.sound()
    })

    it('C25: an onRefunded that throws undoes the decision', async () => {
      const till = await openTill(backend(), {
        book: {
          hooks: {
            async onRefunded() {
              throw new Error('the host says no')
            },
          },
        },
      })
      const { order, paymentId } = await paidOrder(till)
      await expect(give(till, paymentId, newOrderNo(), PRICE)).rejects.toThrow('the host says no')
      expect((await till.row(order.orderNo)).status).toBe('paid')
      expect(await till.payment(paymentId)).toMatchObject({ status: 'paid', refundingMinor: 0 })
      await till.sound()
    })
  })
}
