import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { openTill, type Till, tally, useBackend } from '../suites/payment/kit.js'

const ROUNDS = 1_000
const LANES = 10
/** The closings are quicker than the payment and the keeper: without it they would nearly always win. */
const HEAD_START_MS = 80

/**
 * One order; its payment, a closing, its deadline and its buyer's cancel at once, one of them a moment before the others. In every other
 * round the deadline is the keeper's, who asks the channel first; else it is that of a closer whom the channel does not answer.
 */
async function round(till: Till, i: number) {
  const userId = `u${i}`
  const order = await till.order(userId)
  const { orderNo } = order
  const paymentId = await till.asked(order)
  const { payments, orders, stock, wx } = till

  const pay = async () => {
    const notice = wx.pay(paymentId)
    if (!notice) return 'closed at the channel'
    // As a channel does; a database that is busy answers `retry-later`.
    for (;;) {
      const { status, acknowledge } = await payments.notice(notice)
      if (acknowledge) return status
    }
  }
  const close = async () => (await payments.close({ orderNo, reason: 'risk' })).status
  const cancel = async () => (await payments.cancel({ ...till.ref, orderNo, userId })).status
  const keeper = async () => {
    await till.expire(orderNo)
    await till.keeper.run()
    return 'ran'
  }
  const silent = async () => {
    const [verdict] = await orders.closeUnpaid([orderNo], 'unpaid')
    if (verdict?.status !== 'closed') return verdict?.status ?? 'gone'
    await stock.move([{ to: 'released', reservation: order, reason: verdict.reason }])
    await orders.released([orderNo])
    return verdict.fresh ? 'closed' : 'already-closed'
  }
  const acts = [pay, close, cancel, i % 2 ? keeper : silent]
  // In two of ten rounds the others wait until the first is through, each in its turn: so that all outcomes occur.
  const alone = i % 10 < 2
  const first = alone ? Math.floor(i / 10) % acts.length : randomInt(acts.length)
  const ahead = acts[first]?.() as Promise<string>
  if (alone) await ahead
  const heard = await Promise.all(
    acts.map(async (act, j) => {
      if (j === first) return ahead
      await sleep(randomInt(HEAD_START_MS))
      return act()
    }),
  )

  const [paying, ...closers] = heard
  const row = await till.row(orderNo)
  const winners = closers.filter((status) => status === 'closed').length
  const story = `${orderNo}: ${heard.join(', ')}: ${row.status} ${row.reason}`
  const byKeeper = i % 2 === 1 && row.reason === 'unpaid'
  expect(winners, story).toBe(row.status === 'paid' || byKeeper ? 0 : 1)
  // The keeper, who withdraws what is open at the channel, may find money before its callback does.
  if (paying === 'closed at the channel') {
    expect(row.status, story).toBe('closed')
    return `${row.reason}, no money`
  }
  const { status } = await till.payment(paymentId)
  if (row.status === 'paid') {
    expect(['applied', 'repeated'], story).toContain(paying)
    expect(status, story).toBe('paid')
    return 'paid'
  }
  expect(row.status, story).toBe('closed')
  // Late money of an order closed at its deadline buys a new one; after another closing it goes back.
  const late = row.reason === 'unpaid'
  expect(late ? ['applied', 'repeated'] : ['refunding', 'repeated'], story).toContain(paying)
  expect(late ? ['paid'] : ['refunding', 'refunded'], story).toContain(status)
  return late ? 'late' : `${row.reason}, money back`
}

describe.each(['mariadb', 'postgres'] as const)('pay ∥ close ∥ expire ∥ cancel on %s', (kind) => {
  const backend = useBackend(kind)

  test(`P2, C21, C24: ${ROUNDS} rounds: one winner each, units back at most once, money in exactly one place`, async () => {
    const till = await openTill(backend(), { units: ROUNDS })
    const outcomes: { status: string }[] = []
    let next = 0
    const lane = async () => {
      while (next < ROUNDS) outcomes.push({ status: await round(till, next++) })
    }
    await Promise.all(Array.from({ length: LANES }, lane))
    await till.round(8)

    const counts = tally(outcomes)
    const of = (name: string) => counts[name] ?? 0
    for (const name of [
      'paid',
      'late',
      'risk, money back',
      'cancelled, money back',
      'unpaid, no money',
    ])
      expect(of(name), JSON.stringify(counts)).toBeGreaterThan(0)
    const live = of('paid') + of('late')
    const back = of('risk, money back') + of('cancelled, money back')
    const n = await till.orders.numbers(till.ref)
    expect(n).toMatchObject({ total: ROUNDS, live, available: ROUNDS - live })
    const redis = await till.stock.numbers(till.ref)
    expect(redis).toMatchObject({ total: ROUNDS, available: ROUNDS - live, sold: live, over: 0 })
    expect(till.wx.received()).toHaveLength(live + back)
    expect(till.wx.refunds()).toHaveLength(back)
    expect(till.wx.calls.refund).toBe(back)
    expect(till.alerts.filter((code) => code.endsWith('-failed'))).toEqual([])
    await till.sound()
  }, 300_000)
})
