import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { newOrderNo } from 'flash-sale-kit'
import type { SandboxPayments } from 'flash-sale-kit/testing'
import { describe, expect, test } from 'vitest'
import { until } from '../harness/net.js'
import { spawnNode } from '../harness/spawn-node.js'
import { type Backend, openTill, PRICE, type Till, useBackend } from '../suites/payment/kit.js'

/** A channel for other processes. */
async function overHttp(channel: SandboxPayments) {
  const signal = new AbortController().signal
  const server = createServer(async (req, res) => {
    let body = ''
    for await (const chunk of req) body += chunk
    const call = (req.url ?? '').slice(1) as 'refund'
    res.end(JSON.stringify(await channel[call](JSON.parse(body), { signal })))
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const close = () => {
    server.closeAllConnections()
    return new Promise((done) => server.close(done))
  }
  return { url, [Symbol.asyncDispose]: async () => void (await close()) }
}

async function refundIn(
  backend: Backend,
  url: string,
  o: { payment: string; refund: string; amount: number; die: string },
) {
  return spawnNode(new URL('./children/payment-refund.ts', import.meta.url), {
    env: {
      DATABASE: JSON.stringify(backend.db.address),
      CHANNEL: url,
      PAYMENT: o.payment,
      REFUND: o.refund,
      AMOUNT: String(o.amount),
      DIE: o.die,
    },
  })
}

async function paid(till: Till) {
  const order = await till.order('ann')
  const notice = await till.paid(order)
  await till.payments.notice(notice)
  return { order, paymentId: notice.paymentId }
}

describe.each(['mariadb', 'postgres'] as const)('kill -9 of a refund on %s', (kind) => {
  const backend = useBackend(kind)

  test.each([
    ['decided', 'between its row and the call of the channel', 0],
    ['made', 'between the call of the channel and its record', 1],
  ] as const)(
    'C25, P-direct: killed when %s (%s): one refund at the channel',
    async (die, _, before) => {
      const till = await openTill(backend())
      const { order, paymentId } = await paid(till)
      await using channel = await overHttp(till.wx)
      const refundId = newOrderNo()
      const job = { payment: paymentId, refund: refundId, amount: PRICE, die }
      const doomed = await refundIn(backend(), channel.url, job)
      await until('it is dead', () => !doomed.isAlive(), 20_000)
      expect(till.wx.calls.refund).toBe(before)
      // Decided is decided: the order is closed, and nothing more can be refunded.
      expect(await till.row(order.orderNo)).toMatchObject({ status: 'closed', reason: 'refunded' })
      const more = { paymentId, refundId: newOrderNo(), amountMinor: 1, reason: 'more' }
      expect(await till.payments.refund(more)).toEqual({ status: 'refused', leftMinor: 0 })
      await till.sound()

      // The same request again finds the lease of the dead, and leaves it alone; then its time has come.
      const again = { paymentId, refundId, amountMinor: PRICE, reason: 'asked for' }
      expect(await till.payments.refund(again)).toMatchObject({ status: 'refunding', fresh: false })
      await till.round(2)
      expect(till.wx.refunds()).toHaveLength(1)
      expect(till.wx.calls).toMatchObject({ refund: 1, queryRefund: 1 })
      expect(await till.payment(paymentId)).toMatchObject({
        status: 'refunded',
        refundedMinor: PRICE,
      })
      await till.sound()
    },
  )

  test('C25: a refund in a process that lives is one call', async () => {
    const till = await openTill(backend())
    const { paymentId } = await paid(till)
    await using channel = await overHttp(till.wx)
    const job = { payment: paymentId, refund: newOrderNo(), amount: 100, die: '' }
    const process = await refundIn(backend(), channel.url, job)
    expect(await process.line(/^refund /)).toBe('refund refunded')
    expect(await process.exited).toMatchObject({ code: 0 })
    expect(till.wx.calls).toMatchObject({ refund: 1, queryRefund: 0 })
    await till.sound()
  })
})
