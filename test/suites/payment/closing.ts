import { newOrderNo } from 'flash-sale-kit'
import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { openTill, tally, useBackend } from './kit.js'

export function closingSuite(kind: DatabaseKind): void {
  describe(`cancelling and deadlines on ${kind}`, () => {
    const backend = useBackend(kind)

    it('C21 (a), (e): a number cancelled before its message is closed, released once, and the late message meets the row', async () => {
      const till = await openTill(backend(), { units: 1 })
      const held = await till.held('ann')
      const cancel = { ...till.ref, orderNo: held.orderNo, userId: 'ann' }
      expect(await till.payments.cancel(cancel)).toEqual({ status: 'closed', reason: 'cancelled' })
      expect(await till.stock.numbers(till.ref)).toMatchObject({
        available: 1,
        pending: 0,
        waiting: 0,
      })
      expect(await till.orders.confirm([held])).toMatchObject([
        { status: 'closed', reason: 'cancelled', fresh: false },
      ])
      expect(await till.payments.cancel(cancel)).toMatchObject({ status: 'already-closed' })
      expect(await till.orders.numbers(till.ref)).toMatchObject({ available: 1, live: 0 })
      await till.sound()
    })

    it('C21 (b): cancel and confirm at once: one row, and the unit follows it', async () => {
      const till = await openTill(backend(), { units: 12 })
      for (let i = 0; i < 12; i++) {
        const held = await till.held(`u${i}`)
        const cancel = { ...till.ref, orderNo: held.orderNo, userId: `u${i}` }
        const [answer] = await Promise.all([
          till.payments.cancel(cancel),
          till.orders.confirm([held]),
        ])
        expect(answer).toEqual({ status: 'closed', reason: 'cancelled' })
        expect(await till.row(held.orderNo)).toMatchObject({
          status: 'closed',
          reason: 'cancelled',
        })
      }
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 12 })
      await till.sound()
    })

    it('C21 (c): buyer, deadline, risk and saga close one order at once: one wins, the others hear already-closed', async () => {
      const till = await openTill(backend(), { units: 1 })
      for (let i = 0; i < 10; i++) {
        const { orderNo } = await till.order('ann')
        await till.expire(orderNo)
        const [, ...answers] = await Promise.all([
          till.keeper.run(),
          till.payments.cancel({ ...till.ref, orderNo, userId: 'ann' }),
          till.payments.close({ orderNo, reason: 'risk' }),
          till.payments.close({ orderNo, reason: 'saga' }),
        ])
        const { reason } = await till.row(orderNo)
        const winners = answers.filter((a) => a.status === 'closed')
        expect(winners).toEqual(reason === 'unpaid' ? [] : [{ status: 'closed', reason }])
        for (const loser of answers.filter((a) => a.status !== 'closed'))
          expect(loser).toEqual({ status: 'already-closed', reason })
        expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 1, frozen: 0 })
      }
      await till.sound()
    })

    it('C21 (d): cancel of a number whose deduction failed, or that never was, releases nothing', async () => {
      const till = await openTill(backend(), { units: 1 })
      await till.held('ann')
      const loser = await till.stock.deduct({ ...till.ref, userId: 'bob', version: 'v1' })
      expect(loser.status).toBe('sold-out')
      const ghost = { ...till.ref, orderNo: newOrderNo(), userId: 'bob' }
      expect(await till.payments.cancel(ghost)).toEqual({ status: 'not-found' })
      expect(await till.orders.find([ghost.orderNo])).toEqual([])
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 0, frozen: 1 })
      const closed = await till.order('ann').catch(() => null)
      expect(closed).toBeNull()
    })

    it('C21 (f): another sale’s name, another SKU or another buyer cancels nothing', async () => {
      const till = await openTill(backend())
      const other = await openTill(backend())
      const order = await till.order('ann')
      const held = await till.held('bob')
      for (const { orderNo, userId } of [order, held])
        for (const wrong of [
          { ...other.ref, orderNo, userId },
          { ...till.ref, skuId: 's2', orderNo, userId },
          { ...till.ref, orderNo, userId: 'mallory' },
        ])
          expect(await till.payments.cancel(wrong)).toEqual({ status: 'not-found' })
      await other.stock.move([
        { to: 'released', reservation: { ...order, ...other.ref }, reason: 'x' },
      ])
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 8, frozen: 2 })
      expect(await other.stock.numbers(other.ref)).toMatchObject({ available: 10, total: 10 })
      expect((await till.row(order.orderNo)).status).toBe('confirmed')
      await till.payments.cancel({ ...till.ref, orderNo: held.orderNo, userId: 'bob' })
      await till.sound()
    })

    it('C21: a paid order is not cancelled', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      await till.payments.notice(await till.paid(order))
      const cancel = { ...till.ref, orderNo: order.orderNo, userId: 'ann' }
      expect(await till.payments.cancel(cancel)).toEqual({ status: 'paid' })
      expect(await till.payments.close({ orderNo: newOrderNo(), reason: 'risk' })).toEqual({
        status: 'not-found',
      })
      await till.sound()
    })

    it('P2: the keeper closes what is overdue by the database’s clock, at the channel first, and units go back', async () => {
      const till = await openTill(backend(), { units: 3 })
      const orders = [await till.order('a'), await till.order('b'), await till.order('c')]
      const [a, b] = orders
      if (!a || !b) throw new Error('three orders')
      const atChannel = await till.asked(a)
      await till.expire(a.orderNo)
      await till.expire(b.orderNo)
      await till.round()
      expect(tally(await till.orders.find(orders.map((o) => o.orderNo)))).toEqual({
        closed: 2,
        confirmed: 1,
      })
      expect(await till.row(a.orderNo)).toMatchObject({ reason: 'unpaid' })
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 2, frozen: 1 })
      expect((await till.payment(atChannel)).status).toBe('closed')
      expect(till.wx.pay(atChannel), 'nobody can pay it any more').toBeNull()
      await till.sound()
    })

    it('P2: a payment found paid at the deadline pays the order', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      await till.paid(order) // its callback is lost
      await till.expire(order.orderNo)
      await till.round()
      expect((await till.row(order.orderNo)).status).toBe('paid')
      await till.sound()
    })

    it('P2: a silent channel holds the closing up for channelGraceMs, and no longer', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const paymentId = await till.asked(order)
      const overdue = (lateMs: number) =>
        till
          .knex('seckill_order')
          .where({ order_no: order.orderNo })
          .update({ pay_by: Date.now() - lateMs })
      await overdue(10_000)
      till.wx.fail('close', 'unreached', 4)
      const patient = till.payments.keeper({ channelGraceMs: 3_600_000 })
      await till.round(1, patient)
      expect((await till.row(order.orderNo)).status).toBe('confirmed')
      await till.round(1, till.payments.keeper({ channelGraceMs: 1 }))
      expect((await till.row(order.orderNo)).status).toBe('closed')
      // The buyer pays all the same: it is late money.
      till.wx.pay(paymentId)
      await till.round(3)
      expect(await till.orders.findByBuyer(till.ref, 'ann')).toMatchObject({ status: 'paid' })
      await till.sound()
    })

    it('P2: when an order is paid, its payment at the other channel is withdrawn there', async () => {
      const till = await openTill(backend())
      const order = await till.order('ann')
      const open = await till.asked(order, 'ali')
      await till.payments.notice(await till.paid(order))
      await till.round()
      expect((await till.payment(open)).status).toBe('closed')
      expect(till.ali.pay(open)).toBeNull()
      await till.sound()
    })

    it('P2: two keepers at once close each order once', async () => {
      const till = await openTill(backend(), { units: 30 })
      for (let i = 0; i < 30; i++) {
        const { orderNo } = await till.order(`u${i}`)
        await till.expire(orderNo)
      }
      await Promise.all([till.keeper.run(), till.another().keeper().run()])
      expect(await till.orders.numbers(till.ref)).toMatchObject({ available: 30, live: 0 })
      expect(await till.stock.numbers(till.ref)).toMatchObject({ available: 30, frozen: 0 })
      await till.sound()
    })

    it('P2: the keeper starts, and stops as often as it is told', async () => {
      const till = await openTill(backend())
      const { orderNo } = await till.order('ann')
      await till.expire(orderNo)
      const keeper = till.payments.keeper({ everyMs: 10 })
      await keeper.start()
      await expect.poll(async () => (await till.row(orderNo)).status).toBe('closed')
      await Promise.all([keeper.stop(), keeper.stop(), keeper[Symbol.asyncDispose]()])
      await expect(keeper.start()).rejects.toMatchObject({ code: 'STOPPED' })
      await till.sound()
    })
  })
}
