import type { Breach } from './invariants.js'
import type { SimChannel, Trade } from './sim-channel.js'
import type { SimDatabase } from './sim-database.js'
import type { SimMoney } from './sim-money.js'

const broken = (what: string): Breach => ({ rule: 'I6', what })

const backOf = (channels: readonly SimChannel[], { tradeNo }: Trade): number =>
  channels
    .flatMap((channel) => [...channel.refunds.values()])
    .filter((refund) => refund.tradeNo === tradeNo)
    .reduce((sum, refund) => sum + refund.amountMinor, 0)

/** How much of it is decided to go back, and the PAID order that the rest is in; null when it is in none. */
function bookedOf(db: SimDatabase, money: SimMoney, { channel, tradeNo }: Trade) {
  const payment = money.find((p) => p.channel === channel && p.tradeNo === tradeNo)
  const paid = payment?.status === 'paid' ? payment.paidOrderNo : null
  return { decided: payment?.refundingMinor ?? 0, order: db.rows.get(paid ?? '') ?? null }
}

/**
 * Always: nothing goes back that was not decided before, none of it twice, nor all of what is in an order; and a PAID order
 * has its money.
 */
export function lawsOfMoney(
  db: SimDatabase,
  money: SimMoney,
  channels: readonly SimChannel[],
): Breach | null {
  const trades = channels.flatMap((channel) => channel.trades)
  const paid = new Set<string>()
  for (const trade of trades) {
    const { tradeNo, amountMinor } = trade
    const back = backOf(channels, trade)
    if (back > amountMinor) return broken(`${back} of the ${amountMinor} of ${tradeNo} went back`)
    const { decided, order } = bookedOf(db, money, trade)
    if (back > decided) return broken(`${back} of ${tradeNo} went back, ${decided} are decided`)
    if (!order) continue
    const { orderNo, status } = order
    if (paid.has(orderNo)) return broken(`${orderNo} was paid twice`)
    paid.add(orderNo)
    if (status !== 'paid') return broken(`${tradeNo} paid ${orderNo}, which is ${status}`)
    if (order.amountMinor !== amountMinor) return broken(`${tradeNo} is not what ${orderNo} costs`)
    if (decided >= amountMinor) return broken(`${tradeNo} paid ${orderNo}, and goes back`)
  }
  for (const { orderNo, status } of db.rows.values())
    if (status === 'paid' && !paid.has(orderNo)) return broken(`${orderNo} is PAID by no money`)
  return null
}

/** At rest all money is in exactly one place. */
export function moneyAtRest(
  db: SimDatabase,
  money: SimMoney,
  channels: readonly SimChannel[],
): Breach | null {
  for (const trade of channels.flatMap((channel) => channel.trades)) {
    const { decided, order } = bookedOf(db, money, trade)
    const back = backOf(channels, trade)
    if (!order && back !== trade.amountMinor)
      return broken(`${trade.tradeNo} is in no PAID order, and did not go back`)
    if (back !== decided)
      return broken(`${decided} of ${trade.tradeNo} are to go back, not ${back}`)
  }
  return null
}
