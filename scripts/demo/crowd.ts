import type { FlashSale, SkuRef, Submitted } from 'flash-sale-kit'

export interface Tally {
  /** Distinct order numbers that somebody was told. */
  readonly queued: Set<string>
  soldOut: number
  /** Answers to repeated clicks: the first answer again, or that the buyer has an order already. */
  duplicate: number
  readonly other: Map<string, number>
}

/** Clicks in flight at once, as if from as many browsers. */
const BROWSERS = 1_000

/**
 * Every buyer fetches a token and clicks; a share of the clicks repeat those of a buyer before. Who hears `busy` waits as
 * told and clicks again, like a well-made page does.
 */
export async function letThemIn(
  sale: FlashSale,
  ref: SkuRef,
  o: {
    readonly requests: number
    readonly duplicates: number
    readonly progress: (done: number) => void
  },
): Promise<Tally> {
  const tally: Tally = { queued: new Set(), soldOut: 0, duplicate: 0, other: new Map() }
  let next = 0
  let done = 0
  const browser = async () => {
    while (next < o.requests) {
      const i = next++
      const repeats = Math.floor(i * o.duplicates)
      const isRepeat = Math.floor((i + 1) * o.duplicates) > repeats && i > repeats
      const buyer = isRepeat ? Math.floor(Math.random() * (i - repeats)) : i - repeats
      count(tally, await click(sale, ref, `user-${buyer}`))
      o.progress(++done)
      await new Promise(setImmediate) // as a network would: what is refused from memory must not starve the sockets
    }
  }
  await Promise.all(Array.from({ length: Math.min(BROWSERS, o.requests) }, browser))
  return tally
}

async function click(sale: FlashSale, ref: SkuRef, userId: string): Promise<Submitted> {
  const buyer = { userId, ip: '127.0.0.1' }
  const issued = await sale.token(ref.activityId, buyer)
  if (issued.status !== 'issued') return issued
  for (let tries = 1; ; tries++) {
    const answer = await sale.submit({ ...ref, buyer, token: issued.token })
    const again = answer.status === 'busy' || answer.status === 'try-again'
    if (!again || tries === 100) return answer
    await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 200))
  }
}

function count(tally: Tally, answer: Submitted): void {
  if (answer.status === 'sold-out') tally.soldOut++
  else if (answer.status === 'already-bought') tally.duplicate++
  else if (answer.status === 'queued') {
    if (tally.queued.has(answer.orderNo)) tally.duplicate++
    else tally.queued.add(answer.orderNo)
  } else tally.other.set(answer.status, (tally.other.get(answer.status) ?? 0) + 1)
}
