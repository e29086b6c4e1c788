import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { OrderBook } from '../core/order-book.js'
import { newOrderNo } from '../core/order-no.js'
import type { Reservation, Submitted, TokenProof } from '../core/types.js'
import type { ActivityGate, KnownActivity } from '../gate/activity-gate.js'
import type { StockBucket } from '../stock/stock-bucket.js'
import type { Alert } from './alerts.js'
import type { SubmitRequest } from './options.js'

/** Takes the units of a click that was admitted, in Redis or (strong mode) in the database. */
export class Purchase {
  /** Stops on their way: one for a whole crowd, whose clicks all hear `rewound` before the first of them is written. */
  private readonly closing = new Map<string, Promise<void>>()

  constructor(
    private readonly o: {
      readonly stock: StockBucket
      readonly orders: OrderBook
      readonly gate: ActivityGate
      readonly stop: (activityId: string, reason: string) => Promise<unknown>
      readonly alert: Alert
    },
  ) {}

  async deduct(
    { activity }: KnownActivity,
    request: SubmitRequest,
    userId: string,
    token: TokenProof | undefined,
  ): Promise<Submitted> {
    const { activityId, skuId, quantity, payload, signal } = request
    const outcome = await this.o.stock.deduct({
      activityId,
      skuId,
      userId,
      version: activity.version,
      ...(quantity === undefined ? {} : { quantity }),
      ...(token ? { token } : {}),
      ...(payload === undefined ? {} : { payload }),
      ...(signal ? { signal } : {}),
    })
    if (outcome.status === 'reserved') {
      const { orderNo } = outcome.reservation
      return { status: 'queued', orderNo, replayed: outcome.replayed }
    }
    if (outcome.status === 'not-open') this.o.gate.notOpenYet(activityId, outcome.opensAt)
    if (outcome.status === 'rewound') await this.closeOnce(activityId)
    else if (outcome.status === 'not-warmed' || outcome.status === 'script-mismatch')
      this.o.alert(outcome.status, { activityId, skuId })
    return outcome
  }

  private closeOnce(activityId: string): Promise<void> {
    const closing =
      this.closing.get(activityId) ??
      this.closeRewound(activityId).finally(() => this.closing.delete(activityId))
    this.closing.set(activityId, closing)
    return closing
  }

  /** Redis went back in time: what it would sell now may be sold already. Stop, and leave opening to a person. */
  private async closeRewound(activityId: string): Promise<void> {
    this.o.alert('rewound', { activityId })
    const look = await this.o.gate.look(activityId)
    if ('status' in look || look.control.state === 'stopped') return
    try {
      await this.o.stop(activityId, 'Redis went back in time (seq fence)')
    } catch (error) {
      this.o.alert('stop-failed', { activityId, error })
    }
  }

  /** Strong mode: the answer waits for the commit. */
  async buy(
    { activity }: KnownActivity,
    request: SubmitRequest,
    userId: string,
  ): Promise<Submitted> {
    const { activityId, skuId, quantity = 1, payload } = request
    check.payloadText(payload)
    const reservation: Reservation = {
      orderNo: newOrderNo(),
      activityId,
      skuId,
      userId,
      quantity,
      bucket: 0,
      version: activity.version,
      reservedAt: Date.now(),
      ...(payload === undefined ? {} : { payload }),
    }
    try {
      const bought = await this.o.orders.buy(reservation)
      if (bought.status === 'confirmed')
        return { status: 'confirmed', orderNo: bought.orderNo, replayed: !bought.fresh }
      return bought.status === 'closed' ? { status: 'try-again' } : bought
    } catch (error) {
      if (error instanceof FlashSaleError && error.code === 'OUTCOME_UNKNOWN')
        return { status: 'unknown', orderNo: reservation.orderNo }
      throw error
    }
  }
}
