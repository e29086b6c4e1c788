import * as check from '../core/check.js'
import type { SkuRef } from '../core/types.js'

export interface SoldOutMarkOptions {
  /** How long one answer "sold out" refuses others, in ms; with 0 nobody is refused from memory. @defaultValue 250 */
  readonly ttlMs?: number
  /** SKUs remembered at once; beyond them the oldest marks go, which only costs a trip. @defaultValue 10,000 */
  readonly maxMarks?: number
}

export interface SoldOut {
  readonly status: 'sold-out'
}

interface Mark {
  /** Refuses until then. */
  until: number
  /** One caller is on his way to ask; the others are refused for him until then. */
  askingUntil: number
}

const SOLD_OUT: SoldOut = Object.freeze({ status: 'sold-out' })
const NEVER = Number.NEGATIVE_INFINITY
/** In the words of StockBucket, of FlashSale, and of strong mode. */
const WON: ReadonlySet<string> = new Set(['reserved', 'queued', 'confirmed'])

/**
 * Refuses from process memory what Redis has just called sold out. It is used to refuse only: whoever gets past it is
 * still decided by the deduct script.
 *
 * Bound: `ttlMs` after units came back, the next caller is let through. The time counts from before Redis was asked, not
 * from its answer, so an answer that was already on its way when the units came back cannot stretch it; and a caller who
 * asks for the others and gets no answer holds them up for `ttlMs` at most. There is no broadcast to wait for.
 */
export class SoldOutMark {
  private readonly marks = new Map<string, Mark>()
  private readonly ttlMs: number
  private readonly maxMarks: number

  constructor(o: SoldOutMarkOptions = {}) {
    check.object(o, 'options')
    this.ttlMs = check.option(o.ttlMs, 'ttlMs', 250, 0, 60_000)
    this.maxMarks = check.option(o.maxMarks, 'maxMarks', 10_000, 1, 1_000_000)
  }

  /** For the front of the chain: whether this would be refused now. Memory only, and asks nobody. */
  refusal(ref: SkuRef, version: string): SoldOut | null {
    const mark = this.marks.get(keyOf(ref, version))
    return mark && isShut(mark, performance.now()) ? SOLD_OUT : null
  }

  /**
   * Around the deduction: `sold-out` without calling `deduct`, or what `deduct` answers. Once a mark has run out, one
   * caller goes through and the others are refused until his answer renews or clears it.
   *
   * `sold-out` sets the mark. An answer that shows units (a win that is no replay; `not-enough`) clears it: others may want
   * fewer. Any other answer, and a throw, says nothing: the next caller asks.
   */
  async through<T extends { readonly status: string; readonly replayed?: boolean }>(
    ref: SkuRef,
    version: string,
    deduct: () => Promise<T>,
  ): Promise<T | SoldOut> {
    const key = keyOf(ref, version)
    const startedAt = performance.now()
    const before = this.marks.get(key)
    if (before) {
      if (isShut(before, startedAt)) return SOLD_OUT
      before.askingUntil = startedAt + this.ttlMs
    }
    try {
      const answer = await deduct()
      if (answer.status === 'sold-out') this.set(key, startedAt + this.ttlMs)
      else if (showsUnits(answer)) this.marks.delete(key)
      return answer
    } finally {
      // Only the caller who asked for the others ends their wait; by now another may be asking.
      if (before && before.askingUntil === startedAt + this.ttlMs) before.askingUntil = NEVER
    }
  }

  /** Units came back, by an act of this process: the next caller is let through. */
  clear(ref: SkuRef, version: string): void {
    this.marks.delete(keyOf(ref, version))
  }

  private set(key: string, until: number): void {
    const mark = this.marks.get(key)
    if (mark) {
      mark.until = Math.max(mark.until, until)
      return
    }
    // A Map keeps its entries in the order they came.
    for (const oldest of this.marks.keys()) {
      if (this.marks.size < this.maxMarks) break
      this.marks.delete(oldest)
    }
    this.marks.set(key, { until, askingUntil: NEVER })
  }
}

function isShut(mark: Mark, now: number): boolean {
  return now < mark.until || now < mark.askingUntil
}

/** Blanks are outside the alphabet of ids. */
function keyOf({ activityId, skuId }: SkuRef, version: string): string {
  return `${activityId} ${skuId} ${version}`
}

function showsUnits(answer: { readonly status: string; readonly replayed?: boolean }): boolean {
  if (answer.status === 'not-enough') return true
  return WON.has(answer.status) && answer.replayed !== true
}
