import { describe } from '../core/describe.js'
import { FlashSaleError } from '../core/errors.js'
import type { OverdueOrder } from '../core/payment.js'
import { UNPAID } from '../core/unpaid.js'
import { closeOrders } from './close.js'
import { allInLanes } from './lanes.js'
import { withdraw } from './notice.js'
import type { Parts } from './parts.js'

export interface ClosingOptions {
  readonly concurrency: number
  readonly channelGraceMs: number
}

const PAGE = 256

/**
 * Closes orders at their deadline, the channel first: money that is there pays the order, and nobody can pay it any more once
 * it is closed. Each is looked at once: what cannot be closed is left for the next round, and stands before nobody.
 */
export async function closeOverdue(
  parts: Parts,
  o: ClosingOptions,
  signal: AbortSignal,
): Promise<void> {
  const closer = new Closer(parts)
  let after: OverdueOrder | undefined
  do {
    const page = await parts.book.overdue({ limit: PAGE, after })
    // Nobody is to be asked about these, so they wait for nobody.
    closer.close(page.filter((order) => order.payments.length === 0))
    const asked = page.filter((order) => order.payments.length > 0)
    await allInLanes(parts, o.concurrency, asked, signal, async (order) => {
      if (await mayClose(parts, order, o.channelGraceMs)) closer.close([order])
    })
    await closer.idle()
    after = page.length === PAGE ? page.at(-1) : undefined
  } while (after && !signal.aborted)
}

async function mayClose(parts: Parts, order: OverdueOrder, graceMs: number): Promise<boolean> {
  const states = await Promise.all(
    order.payments.map((p) => (p.status === 'received' ? 'paid' : withdraw(parts, p))),
  )
  if (states.includes('paid')) return false
  return !states.includes('unknown') || order.lateMs >= graceMs
}

/** Closes at once what is handed in; what comes meanwhile is the next group. */
class Closer {
  #waiting: string[] = []
  #running: Promise<void> | null = null

  constructor(private readonly parts: Parts) {}

  close(orders: readonly OverdueOrder[]): void {
    this.#waiting.push(...orders.map((order) => order.orderNo))
    if (this.#waiting.length > 0) this.#running ??= this.#run()
  }

  async idle(): Promise<void> {
    await this.#running
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) await closeGroup(this.parts, this.#waiting.splice(0, PAGE))
    this.#running = null
  }
}

/** One that is broken (its stock row is gone) does not keep the others open: the group is halved until it stands alone. */
async function closeGroup(parts: Parts, orderNos: readonly string[]): Promise<void> {
  try {
    await closeOrders(parts, orderNos, UNPAID)
  } catch (error) {
    const [orderNo = ''] = orderNos
    const corrupt = error instanceof FlashSaleError && error.code === 'CORRUPT'
    if (corrupt && orderNos.length > 1) {
      const middle = orderNos.length >> 1
      await closeGroup(parts, orderNos.slice(0, middle))
      await closeGroup(parts, orderNos.slice(middle))
      return
    }
    parts.alert('payment-keeper-failed', corrupt ? { orderNo, error } : { error })
    if (corrupt) await leaveToPerson(parts, orderNo, error)
  }
}

async function leaveToPerson(parts: Parts, orderNo: string, error: unknown): Promise<void> {
  const detail = { reason: UNPAID, error: describe(error) }
  try {
    await parts.orders.addManualTask({ kind: 'close-failed', ref: orderNo, detail })
  } catch (failed) {
    parts.alert('payment-keeper-failed', { orderNo, error: failed })
  }
}
