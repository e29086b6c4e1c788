import type { SkuRef } from '../core/types.js'

export interface WinnersOptions {
  /** All buyers who have something of an SKU; null when they are too many to remember. */
  readonly load: (ref: SkuRef) => Promise<ReadonlySet<string> | null>
  /** Changes whenever somebody may have bought; compared, never read. */
  readonly stamp: (ref: SkuRef) => string
}

interface List {
  /** Of the state that `users` shows; empty as long as there is none. */
  stamp: string
  users: ReadonlySet<string> | null
  loading: boolean
  retryAt: number
}

/** The list of an SKU is stale whenever another SKU of its sale has sold, and reading it is hundreds of scripts. */
const PAUSE_MS = 1_000

/**
 * Who has bought of an SKU that is sold out, so that a winner who repeats his click (the answer was lost on the way) hears
 * his order number and not what the sold-out mark tells the crowd. Read once from the ledger when it is first needed, and
 * again only after somebody may have bought.
 */
export class Winners {
  private readonly lists = new Map<string, List>()

  constructor(private readonly o: WinnersOptions) {}

  /** False: he is none. True: he is one, or the list is not here yet; then Redis is asked. */
  mayBe(ref: SkuRef, userId: string): boolean {
    const list = this.listOf(ref)
    const stamp = this.o.stamp(ref)
    if (list.stamp !== stamp) {
      this.load(ref, list, stamp)
      return true
    }
    return list.users?.has(userId) ?? false
  }

  private listOf(ref: SkuRef): List {
    const key = `${ref.activityId} ${ref.skuId}`
    let list = this.lists.get(key)
    if (!list) {
      list = { stamp: '', users: null, loading: false, retryAt: 0 }
      this.lists.set(key, list)
    }
    return list
  }

  private load(ref: SkuRef, list: List, stamp: string): void {
    const now = performance.now()
    if (list.loading || now < list.retryAt) return
    list.loading = true
    this.o
      .load(ref)
      .then(
        (users) => {
          list.users = users
          list.stamp = stamp
        },
        () => undefined, // read again after the pause
      )
      .finally(() => {
        list.loading = false
        list.retryAt = performance.now() + PAUSE_MS
      })
  }
}
