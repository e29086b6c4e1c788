import { Coalescer } from '../../core/coalescer.js'
import { FlashSaleError } from '../../core/errors.js'
import type { OrderBook } from '../../core/order-book.js'
import type { Reservation } from '../../core/types.js'
import type { Decision, Refused } from './decide.js'
import type { GroupCommit } from './group-commit.js'
import { skuKeyOf } from './rows.js'

type Bought = Awaited<ReturnType<OrderBook['buy']>>
/** A batch answers its calls one by one: the error of one is not that of the others. */
type Answer = Bought | FlashSaleError

const MAX_BATCH = 256

/**
 * Strong mode: the click waits for the commit. One transaction is in flight for each SKU, and what arrives meanwhile
 * forms the next, so the hot row is taken once for up to 256 buyers.
 */
export class StrongMode {
  readonly #commits: GroupCommit
  readonly #maxWaiting: number
  readonly #maxWaitMs: number
  readonly #bySku = new Map<string, Coalescer<Reservation, Answer>>()

  constructor(
    commits: GroupCommit,
    o: { readonly maxWaiting: number; readonly maxWaitMs: number },
  ) {
    this.#commits = commits
    this.#maxWaiting = o.maxWaiting
    this.#maxWaitMs = o.maxWaitMs
  }

  async buy(reservation: Reservation): Promise<Bought> {
    const key = skuKeyOf(reservation)
    let coalescer = this.#bySku.get(key)
    if (!coalescer) {
      coalescer = this.#coalescer()
      this.#bySku.set(key, coalescer)
    }
    const answer = await coalescer.submit(reservation)
    // SKUs come and go; an idle coalescer holds nothing that the next one would miss.
    if (coalescer.idle && this.#bySku.get(key) === coalescer) this.#bySku.delete(key)
    if (answer instanceof FlashSaleError) throw answer
    return answer
  }

  #coalescer(): Coalescer<Reservation, Answer> {
    return new Coalescer({
      keyOf: (r) => r.orderNo,
      equal: (a, b) => JSON.stringify(a) === JSON.stringify(b),
      bytesOf: () => 0,
      maxBytes: 1,
      maxBatch: MAX_BATCH,
      maxWaiting: this.#maxWaiting,
      maxWaitMs: this.#maxWaitMs,
      full: () => new FlashSaleError('DB_BUSY', 'too many wait for this SKU, nothing was written'),
      run: async (calls) => {
        const decisions = await this.#commits.settle(calls, { heldBy: 'nobody' })
        return calls.map((call, i) => answerTo(call, decisions[i] as Decision))
      },
    })
  }
}

function answerTo(call: Reservation, decision: Decision): Answer {
  switch (decision.kind) {
    case 'take':
      return { status: 'confirmed', orderNo: call.orderNo, fresh: true }
    case 'close':
      return { status: 'closed', orderNo: call.orderNo, reason: decision.reason }
    case 'refuse':
      return refusal(call, decision.refused)
    case 'standing': {
      const { userId, status, reason, orderNo } = decision.standing
      if (userId !== call.userId)
        return new FlashSaleError('BAD_INPUT', `order number ${orderNo} is another buyer's`)
      return status === 'closed'
        ? { status, orderNo, reason: reason ?? '' }
        : { status: 'confirmed', orderNo, fresh: false }
    }
    default:
      return decision satisfies never
  }
}

function refusal(call: Reservation, refused: Refused): Answer {
  switch (refused.why) {
    case 'already-bought':
      return { status: 'already-bought', orderNo: refused.holder }
    case 'sold-out':
      return refused.available > 0
        ? { status: 'not-enough', available: refused.available }
        : { status: 'sold-out' }
    case 'stopped':
    case 'version-mismatch':
      return { status: refused.why }
    case 'over-limit':
      return new FlashSaleError(
        'BAD_INPUT',
        `quantity ${call.quantity} is more than one order may have`,
      )
    case 'no-stock-row':
      return new FlashSaleError(
        'NOT_WARMED',
        `no stock row for ${call.activityId} ${call.skuId}: prepare it first`,
      )
    default:
      return refused satisfies never
  }
}
