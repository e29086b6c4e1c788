import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { openTill, PRICE, useBackend } from './kit.js'

const BUYERS = 16

export function stormSuite(kind: DatabaseKind): void {
  describe(`channels that fail at random, on ${kind}`, () => {
    const backend = useBackend(kind)

    it.each([1, 2, 3])(
      'P1, P2: lost answers, callbacks twice and in any order (seed %i): money in exactly one place, one refund an id',
      async (seed) => {
        const till = await openTill(backend(), {
          units: BUYERS,
          channels: { seed, unreached: 0.15, lostAnswer: 0.15, delayMs: 3 },
        })
        const { payments, wx, ali } = till
        const live = async (i: number) => {
          const userId = `u${i}`
          const { orderNo } = await till.order(userId)
          for (const channel of i % 3 ? [wx] : [wx, ali]) {
            const question = { orderNo, userId, channel: channel.channel }
            const made = await payments.create(question)
            if (made.status === 'created') channel.pay(made.payment.paymentId)
            // A create that nobody heard of may be there all the same, and be paid.
            if (made.status === 'unknown') channel.pay(made.paymentId, { amountMinor: PRICE })
          }
          if (i % 4 === 1) await payments.cancel({ ...till.ref, orderNo, userId })
          if (i % 4 === 2) await till.expire(orderNo)
          if (i % 4 === 3) await payments.close({ orderNo, reason: 'unpaid' })
        }
        const deliver = (channel: typeof wx) => channel.deliver((notice) => payments.notice(notice))
        await Promise.all(Array.from({ length: BUYERS }, (_, i) => live(i)))
        await Promise.all([till.keeper.run(), deliver(wx), deliver(ali)])
        await till.round(4)
        wx.calm()
        ali.calm()
        await till.round(4)
        expect(await deliver(wx)).toEqual([])
        expect(await deliver(ali)).toEqual([])
        await till.round(4)
        for (const channel of [wx, ali])
          for (const { tradeNo, amountMinor, refundedMinor } of channel.received()) {
            const payment = await till.book.findTrade(channel.channel, tradeNo)
            const back = payment?.status === 'paid' ? 0 : amountMinor
            expect(refundedMinor, `${tradeNo}: ${payment?.status}`).toBe(back)
          }
        await till.sound()
      },
    )
  })
}
