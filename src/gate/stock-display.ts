import { within } from '../core/background.js'
import * as check from '../core/check.js'
import { quiet } from '../core/quiet.js'
import type { SkuRef } from '../core/types.js'

/** What there is to show; a StockBucket's `numbers` has it, and a host may have it from elsewhere. */
export interface ShownNumbers {
  readonly total: number
  readonly available: number
}

export interface StockDisplayOptions {
  /** Reads the numbers, for example `(ref) => stock.numbers(ref)`. */
  readonly read: (ref: SkuRef) => Promise<ShownNumbers>
  /** How old a number may be before it is read again, in ms; at most a minute, so shorter than any sale. @defaultValue 1,000 */
  readonly ttlMs?: number
  /** How old a number may be and still be shown while it is read again or cannot be read, in ms. @defaultValue 10,000 */
  readonly maxStaleMs?: number
  /** How long one read may take, in ms. @defaultValue 1,000 */
  readonly readTimeoutMs?: number
  /** SKUs remembered at once; beyond them the longest known go. @defaultValue 10,000 */
  readonly maxSkus?: number
  /** Told of every read that failed. */
  readonly onError?: (error: unknown) => void
}

/**
 * For people's eyes: it has no `status` that a purchase could be decided by, and is old by design. `ageMs` says how old.
 */
export type ShownStock =
  | {
      readonly shown: true
      readonly total: number
      readonly available: number
      readonly ageMs: number
    }
  | { readonly shown: false }

interface Entry {
  numbers: ShownNumbers | null
  readAt: number
  reading: Promise<void> | null
  /** After a read that failed, the next one waits: a store in trouble is not asked by every page view. */
  retryAt: number
}

const UNKNOWN: ShownStock = Object.freeze({ shown: false })

/**
 * A read cache of the numbers a product page shows. One caller reads an SKU for all; while a number is read again the
 * old one is shown. {@link invalidate} makes the next view wait for a new one. It grants nothing: whether there is a unit
 * is decided where it is taken.
 */
export class StockDisplay {
  private readonly entries = new Map<string, Entry>()
  private readonly ttlMs: number
  private readonly maxStaleMs: number
  private readonly readTimeoutMs: number
  private readonly maxSkus: number
  private readonly onError: (error: unknown) => void

  constructor(private readonly o: StockDisplayOptions) {
    check.object(o, 'options')
    if (typeof o.read !== 'function') check.fail('BAD_OPTION', 'option read', 'a function', o.read)
    this.onError = quiet('onError', o.onError)
    this.ttlMs = check.option(o.ttlMs, 'ttlMs', 1_000, 1, 60_000)
    this.maxStaleMs = check.option(o.maxStaleMs, 'maxStaleMs', 10_000, 0, 600_000)
    this.readTimeoutMs = check.option(o.readTimeoutMs, 'readTimeoutMs', 1_000, 1, 60_000)
    this.maxSkus = check.option(o.maxSkus, 'maxSkus', 10_000, 1, 1_000_000)
  }

  /** @throws FlashSaleError `BAD_INPUT`; never because a read failed */
  async show(ref: SkuRef): Promise<ShownStock> {
    const { activityId, skuId } = check.skuRef(ref)
    const entry = this.entry(keyOf(ref))
    const now = performance.now()
    const age = now - entry.readAt
    if (age > this.ttlMs && (entry.reading || now >= entry.retryAt)) {
      const reading = this.read({ activityId, skuId }, entry)
      if (age > Math.max(this.ttlMs, this.maxStaleMs)) await reading
    }
    return this.answer(entry)
  }

  /** What is known now is wrong (a top-up, a stop, a return of units): the next view waits for a number read after this. */
  invalidate(ref: SkuRef): void {
    check.skuRef(ref)
    // A read under way began before; with its entry gone, nobody sees what it brings.
    this.entries.delete(keyOf(ref))
  }

  private entry(key: string): Entry {
    const found = this.entries.get(key)
    if (found) return found
    for (const oldest of this.entries.keys()) {
      if (this.entries.size < this.maxSkus) break
      this.entries.delete(oldest)
    }
    const readAt = Number.NEGATIVE_INFINITY
    const entry: Entry = { numbers: null, readAt, reading: null, retryAt: readAt }
    this.entries.set(key, entry)
    return entry
  }

  private answer({ numbers, readAt }: Entry): ShownStock {
    const ageMs = Math.round(performance.now() - readAt)
    if (!numbers || ageMs > Math.max(this.ttlMs, this.maxStaleMs)) return UNKNOWN
    return { shown: true, total: numbers.total, available: numbers.available, ageMs }
  }

  /** Never rejects. The age counts from before the read. */
  private read(ref: SkuRef, entry: Entry): Promise<void> {
    entry.reading ??= this.readOnce(ref, performance.now()).then(
      ({ numbers, at }) => {
        entry.numbers = numbers
        entry.readAt = at
        entry.reading = null
      },
      (error: unknown) => {
        entry.retryAt = performance.now() + this.ttlMs
        entry.reading = null
        this.onError(error)
      },
    )
    return entry.reading
  }

  private async readOnce(
    ref: SkuRef,
    at: number,
  ): Promise<{ readonly numbers: ShownNumbers; readonly at: number }> {
    const found = await within(this.o.read(ref), this.readTimeoutMs, () => {
      throw new Error(`the stock of ${keyOf(ref)} was not read within ${this.readTimeoutMs} ms`)
    })
    check.object(found, 'what read returned')
    const total = check.int(found.total, 'total', 0, Number.MAX_SAFE_INTEGER)
    return { numbers: { total, available: check.int(found.available, 'available', 0, total) }, at }
  }
}

function keyOf({ activityId, skuId }: SkuRef): string {
  return `${activityId} ${skuId}`
}
